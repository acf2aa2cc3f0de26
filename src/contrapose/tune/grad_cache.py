"""GradCache: the exact gradient of a large batch, computed in micro-batches (Gao et al. 2021).

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

EncoderOutputs = tuple[Tensor, ...]
"""Vectors of some rows of a batch, and what else the encoder made of them."""
Encode = Callable[[slice], EncoderOutputs]
ExtraLosses = Callable[[int, EncoderOutputs], None]
"""Leaves gradients of further losses on what was made of the piece of a number, and on weights."""

Gradients = Sequence[Tensor | None]


def split_rows(size: int, pieces: int) -> list[slice]:
    """Row slices of the micro-batches; fewer where there are fewer rows."""
    pieces = min(pieces, size)
    return [slice(size * i // pieces, size * (i + 1) // pieces) for i in range(pieces)]


def backward_in_micro_batches(
    encoders: Mapping[str, Encode],
    some: Sequence[slice],
    losses: Callable[[dict[str, Tensor]], Tensor],
    beside: Mapping[str, ExtraLosses] | None = None,
) -> None:
    """Accumulate the gradients of a loss on the whole batch, micro-batch by micro-batch.

    Args:
        encoders: by name, what makes vectors of some rows.
        some: the rows of each piece.
        losses: what is minimised, of all vectors by the same names.
        beside: for encoders by name, further losses of each piece; they add to the same gradients.
    """
    began: dict[str, list[_RandomState]] = {}
    vectors: dict[str, Tensor] = {}
    for name, encode in encoders.items():
        began[name] = []
        parts = []
        for rows in some:
            began[name].append(_RandomState())
            with torch.no_grad():
                parts.append(encode(rows)[0])
        vectors[name] = torch.cat(parts).requires_grad_()
    losses(vectors).backward()  # type: ignore[no-untyped-call]
    after = _RandomState()
    for name, encode in encoders.items():
        further = (beside or {}).get(name)
        slope = vectors[name].grad
        if slope is None and further is None:
            continue
        for number, rows in enumerate(some):
            began[name][number].restore_state()
            made = encode(rows)
            mine = None if slope is None else slope[rows]
            slopes: Gradients = [mine, *[None] * (len(made) - 1)]
            if further is not None:
                # What it draws is drawn nowhere else.
                after.restore_state()
                slopes = _add_extra_gradients(made, slopes, partial(further, number))
                after = _RandomState()
            _backward_outputs(made, slopes)
    after.restore_state()


def _add_extra_gradients(
    made: EncoderOutputs, slopes: Gradients, ask: Callable[[EncoderOutputs], None]
) -> Gradients:
    """Gradients with those of extra losses added."""
    ends = tuple(each.detach().requires_grad_(each.requires_grad) for each in made)
    for end, slope in zip(ends, slopes, strict=True):
        end.grad = slope if end.requires_grad else None
    ask(ends)
    return [end.grad for end in ends]


def _backward_outputs(made: EncoderOutputs, slopes: Gradients) -> None:
    there = [
        (each, slope)
        for each, slope in zip(made, slopes, strict=True)
        if each.requires_grad and slope is not None
    ]
    if there:
        torch.autograd.backward([each for each, _ in there], [slope for _, slope in there])


class _RandomState:
    """Snapshot of torch's random generators."""

    def __init__(self) -> None:
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None

    def restore_state(self) -> None:
        """Restore the snapshot."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda)
