"""A batch computed in pieces that still is one batch to its losses (GradCache).

Vectors of all pieces are made without gradients, the losses are taken on all of them, and each
piece is made once more to hand its vectors' gradients on (Gao et al. 2021). Memory is that of one
piece; time is a forward pass more. Dropout draws the same in both passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Encode = Callable[[slice], Tensor]
"""Vectors of some rows of a batch."""


def backward_in_pieces(
    encoders: Mapping[str, Encode],
    size: int,
    pieces: int,
    losses: Callable[[dict[str, Tensor]], Tensor],
) -> None:
    """Leaves the gradients of `losses` of the whole batch's vectors, as one backward pass would.

    Args:
        encoders: by name, what makes vectors of some rows.
        size: rows of the batch.
        pieces: how many pieces to make them in.
        losses: what is minimised, of all vectors by the same names.
    """
    some = [slice(size * i // pieces, size * (i + 1) // pieces) for i in range(pieces)]
    began: dict[str, list[_Random]] = {}
    vectors: dict[str, Tensor] = {}
    for name, encode in encoders.items():
        began[name] = []
        parts = []
        for rows in some:
            began[name].append(_Random())
            with torch.no_grad():
                parts.append(encode(rows))
        vectors[name] = torch.cat(parts).requires_grad_()
    losses(vectors).backward()  # type: ignore[no-untyped-call]
    ended = _Random()
    for name, encode in encoders.items():
        slope = vectors[name].grad
        if slope is None:
            continue
        for rows, random in zip(some, began[name], strict=True):
            random.again()
            again = encode(rows)
            if again.requires_grad:
                again.backward(slope[rows])  # type: ignore[no-untyped-call]
    ended.again()


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
