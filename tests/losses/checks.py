"""Comparing a loss and its gradients with a second writing of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def gradients(loss: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Zeros where the loss does not depend on an input."""
    if not loss.requires_grad:
        return [torch.zeros_like(it) for it in inputs]
    found = torch.autograd.grad(loss, list(inputs), allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]


def assert_same(ours: Tensor, theirs: Tensor, inputs: Sequence[Tensor]) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)
    for mine, other in zip(gradients(ours, inputs), gradients(theirs, inputs), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-12)


def leaves(*tensors: Tensor) -> list[Tensor]:
    return [it.clone().requires_grad_() for it in tensors]


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)
