"""Hard-negative and hard-positive caption losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.errors import InputError
from contrapose.losses.gather import global_mean
from contrapose.losses.info_nce import InfoNCE


@dataclass(frozen=True, slots=True)
class HardNegative:
    """Hard-negative loss: each image picks its caption among its hard negatives.

    When to use: to raise accuracy on swaps and replacements. Alone it makes models brittle and
    lowers the score of every caption: use `HardPositive` with it.

    Inputs: unit vectors (b, d) of images and captions, and (b, d) or (b, n, d) of hard negatives;
    `has` (b,) or (b, n) where some are missing.

    Equation: −1/B · Σ_i log [exp(S(I_i, c_i)/τ) / Σ_{t ∈ {c_i, n_i…}} exp(S(I_i, t)/τ)] (SVLC,
    Doveh et al. 2023; Kamath et al. 2024, section E.1), over the images that have a negative.

    Example:
        loss = InfoNCE()(image, text, scale=s) + HardNegative()(image, text, negative, scale=s)
    """

    tau: float = 0.07
    """The temperature where the call gives no scale."""

    def __call__(
        self,
        image: Tensor,
        text: Tensor,
        negative: Tensor,
        *,
        has: Tensor | None = None,
        scale: Tensor | float | None = None,
    ) -> Tensor:
        """The mean over the whole batch."""
        image, text, negative, has = _check_inputs(image, text, negative, has)
        scale = 1 / self.tau if scale is None else scale
        right = scale * (image * text).sum(1, keepdim=True)
        wrong = scale * torch.einsum("bnd,bd->bn", negative, image)
        logits = torch.cat([right, wrong.masked_fill(~has, -torch.inf)], dim=1)
        losses = logits.logsumexp(1) - logits[:, 0]
        return global_mean(losses, has.any(1).to(losses.dtype))


@dataclass(frozen=True, slots=True)
class HardPositive:
    """Hard-positive loss: a paraphrase of the caption belongs to the image too.

    When to use: beside `HardNegative`; keeps most of its gain with less brittleness.

    Inputs: unit vectors (b, d) of images, captions and hard positives; `has` (b,) where some are
    missing.

    Equation: `analogy`, the paper's: ½ InfoNCE(images, positives) + ½ InfoNCE(captions, positives),
    over the whole batch (SVLC's analogy loss in its symmetric form; Kamath et al. 2024, section
    E.1); a missing positive is replaced by the caption. `even`: the cross-entropy of the softmax of
    S(I_i, c_i)/τ and S(I_i, p_i)/τ from one half each, less log 2, which is zero where both score
    alike and asks for nothing else (SVLC's option `kl_pos`).

    Example:
        loss = loss + HardPositive()(image, text, positive, scale=temperature())
    """

    form: Literal["analogy", "even"] = "analogy"
    tau: float = 0.07
    """The temperature where the call gives no scale."""

    def __call__(
        self,
        image: Tensor,
        text: Tensor,
        positive: Tensor,
        *,
        has: Tensor | None = None,
        scale: Tensor | float | None = None,
    ) -> Tensor:
        """The mean over the whole batch."""
        if positive.ndim != 2:
            raise InputError(
                f"hard positives have shape {tuple(positive.shape)}: give one a caption, (b, d)."
            )
        image, text, each, has = _check_inputs(image, text, positive, has)
        positive = each[:, 0]
        scale = 1 / self.tau if scale is None else scale
        if self.form == "even":
            apart = scale * (image * (text - positive)).sum(1)
            losses = -(F.logsigmoid(apart) + F.logsigmoid(-apart)) / 2 - math.log(2)
            return global_mean(losses, has[:, 0].to(losses.dtype))
        positive = torch.where(has, positive, text)
        nce = InfoNCE()
        return (nce(image, positive, scale=scale) + nce(text, positive, scale=scale)) / 2


def _check_inputs(
    image: Tensor, text: Tensor, others: Tensor, has: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Validate inputs; features in one precision, others as (b, n, d), presence as (b, n)."""
    if image.ndim != 2 or image.shape != text.shape:
        raise InputError(
            f"images have features of shape {tuple(image.shape)} and captions {tuple(text.shape)}: "
            "both must be (batch, width)."
        )
    others = others[:, None] if others.ndim == 2 else others
    if others.ndim != 3 or (len(others), others.shape[2]) != tuple(image.shape):
        raise InputError(
            f"hard captions have features of shape {tuple(others.shape)}: they must be (batch, "
            f"number, width) with batch and width {tuple(image.shape)}."
        )
    has = others.new_ones(others.shape[:2]) if has is None else has
    has = has.bool().reshape(len(has), -1)
    if has.shape != others.shape[:2]:
        raise InputError(
            f"`has` has shape {tuple(has.shape)}; hard captions are {tuple(others.shape[:2])}."
        )
    exact = torch.promote_types(image.dtype, torch.float32)
    return image.to(exact), text.to(exact), others.to(exact), has
