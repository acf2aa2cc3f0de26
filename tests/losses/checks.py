"""Comparing a loss and its gradients with another implementation of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from contrapose.losses import LossBatch, TiledLoss, pairwise


def compute(
    loss: TiledLoss,
    image: Tensor,
    text: Tensor,
    *,
    tile: int | None = None,
    keep: int | None = None,
    **fields: Any,
) -> Tensor:
    """A tiled loss of a batch with these fields."""
    return pairwise(LossBatch(image, text, **fields), [loss], tile=tile, keep=keep)[0]


def gradients(loss: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Gradients by the inputs; zeros where the loss does not depend on one."""
    if not loss.requires_grad:
        return [torch.zeros_like(it) for it in inputs]
    found = torch.autograd.grad(loss, list(inputs), allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]


def assert_same(
    ours: Tensor,
    theirs: Tensor,
    inputs: Sequence[Tensor],
    rtol: float = 1e-11,
    grad_rtol: float = 1e-9,
) -> None:
    torch.testing.assert_close(ours, theirs, rtol=rtol, atol=1e-13)
    for mine, other in zip(gradients(ours, inputs), gradients(theirs, inputs), strict=True):
        torch.testing.assert_close(mine, other, rtol=grad_rtol, atol=1e-12)


def leaves(*tensors: Tensor) -> list[Tensor]:
    return [it.clone().requires_grad_() for it in tensors]


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)
