"""InfoNCE at a fixed temperature with one exponential a pair: for heads it is the cost.

Cosines lie in −1 … 1, so at τ ≥ 1/40 the number exp((S − 1)/τ) needs no maximum taken out first:
its sums over rows and columns give the loss, and the same numbers the derivative. That is one
exponential a pair, where the usual way takes a softmax of each side, forwards and backwards.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contrapose.tune.losses.info_nce import InfoNCE
from contrapose.tune.losses.pairs import KEPT

MOST = 40.0
"""The largest 1/τ: exp(−2·40) is far above the least float32."""


def contrast(image: Tensor, text: Tensor, tau: float, same: Tensor | None = None) -> Tensor:
    """What `InfoNCE(tau)` gives, faster where it can be.

    Args:
        image: (b, d) unit vectors in float32 of one process's batch, the whole of it.
        text: (b, d) those of their captions.
        tau: the temperature.
        same: as in `InfoNCE`.
    """
    if same is not None or tau * MOST < 1 or 4 * len(image) ** 2 > KEPT:
        return InfoNCE(tau=tau)(image, text, same=same)
    found: Tensor = _Contrast.apply(image, text, 1 / tau)  # type: ignore[no-untyped-call]
    return found


class _Contrast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: Tensor, text: Tensor, scale: float) -> Tensor:
        scaled = image * scale
        pairs = (scaled @ text.T).sub_(scale).exp_()
        across, down = pairs.sum(1), pairs.sum(0)
        ctx.save_for_backward(image, text, pairs, across, down)
        ctx.scale = scale
        right = (scaled * text).sum()
        return (across.log() + down.log() - 2 * right / len(image)).mean() / 2 + scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor, Tensor, None]:
        image, text, pairs, across, down = ctx.saved_tensors
        slopes = (across.reciprocal()[:, None] + down.reciprocal()).mul_(pairs)
        factor = weight * (ctx.scale / (2 * len(image)))
        left = (slopes @ text).sub_(text, alpha=2).mul_(factor)
        right = (slopes.T @ image).sub_(image, alpha=2).mul_(factor)
        return left, right, None
