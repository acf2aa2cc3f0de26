"""A batch computed in pieces that still is one batch to its losses (GradCache).

Vectors of all pieces are made without gradients, the losses are taken on all of them, and each
piece is made once more to hand its vectors' gradients on (Gao et al. 2021). What losses need of one
piece alone, such as the states of its images, they get in that second pass. Memory is that of one
piece; time is a forward pass more. Dropout draws the same in both passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

Made = tuple[Tensor, ...]
"""Vectors of some rows of a batch, and what else the encoder made of them."""
Encode = Callable[[slice], Made]
Beside = Callable[[int, Made], None]
"""Leaves gradients of further losses on what was made of the piece of a number, and on weights."""

Slopes = Sequence[Tensor | None]


def cut(size: int, pieces: int) -> list[slice]:
    """The rows of each piece; fewer pieces where there are fewer rows."""
    pieces = min(pieces, size)
    return [slice(size * i // pieces, size * (i + 1) // pieces) for i in range(pieces)]


def backward_in_pieces(
    encoders: Mapping[str, Encode],
    some: Sequence[slice],
    losses: Callable[[dict[str, Tensor]], Tensor],
    beside: Mapping[str, Beside] | None = None,
) -> None:
    """Leaves the gradients of `losses` of the whole batch's vectors, as one backward pass would.

    Args:
        encoders: by name, what makes vectors of some rows.
        some: the rows of each piece.
        losses: what is minimised, of all vectors by the same names.
        beside: for encoders by name, further losses of each piece; they add to the same gradients.
    """
    began: dict[str, list[_Random]] = {}
    vectors: dict[str, Tensor] = {}
    for name, encode in encoders.items():
        began[name] = []
        parts = []
        for rows in some:
            began[name].append(_Random())
            with torch.no_grad():
                parts.append(encode(rows)[0])
        vectors[name] = torch.cat(parts).requires_grad_()
    losses(vectors).backward()  # type: ignore[no-untyped-call]
    after = _Random()
    for name, encode in encoders.items():
        further = (beside or {}).get(name)
        slope = vectors[name].grad
        if slope is None and further is None:
            continue
        for number, rows in enumerate(some):
            began[name][number].again()
            made = encode(rows)
            mine = None if slope is None else slope[rows]
            slopes: Slopes = [mine, *[None] * (len(made) - 1)]
            if further is not None:
                # What it draws is drawn nowhere else.
                after.again()
                slopes = _further(made, slopes, partial(further, number))
                after = _Random()
            _hand_on(made, slopes)
    after.again()


def _further(made: Made, slopes: Slopes, ask: Callable[[Made], None]) -> Slopes:
    """The slopes with those of further losses, each of which has been there and back by then."""
    ends = tuple(each.detach().requires_grad_(each.requires_grad) for each in made)
    for end, slope in zip(ends, slopes, strict=True):
        end.grad = slope if end.requires_grad else None
    ask(ends)
    return [end.grad for end in ends]


def _hand_on(made: Made, slopes: Slopes) -> None:
    there = [
        (each, slope)
        for each, slope in zip(made, slopes, strict=True)
        if each.requires_grad and slope is not None
    ]
    if there:
        torch.autograd.backward([each for each, _ in there], [slope for _, slope in there])


class _Random:
    """The state of torch's generators now."""

    def __init__(self) -> None:
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None

    def again(self) -> None:
        """Go back to it."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda)
