"""Hard-negative loss: each image picks its caption among false changes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses.batch import LossBatch
from contrapose.losses.gather import global_mean
from contrapose.losses.registry import register_loss


@register_loss
@dataclass(frozen=True, slots=True)
class HardNegative:
    """Hard-negative loss: each image picks its caption among its hard negatives.

    Computes: −1/B · Σ_i log [exp(S(I_i, c_i)/τ) / Σ_{t ∈ {c_i, n_i…}} exp(S(I_i, t)/τ)] over the
        images that have a negative (SVLC, Doveh et al. 2023; Kamath et al. 2024, section E.1).
    Inputs: `image`, `text`, `negative`, `scale`; `has_negative` where some are missing.
    Requirements: captions with false changes.
    When to use: where a model fails on changes of a kind that the negatives have. Where
        negatives can be told without the image it makes models oversensitive to wording; on clean
        negatives no rise was seen (docs/studies/positives.md).

    Example:
        >>> loss = HardNegative()(LossBatch(image, text, negative=negative))
    """

    name: ClassVar[str] = "hn"
    weight: ClassVar[float] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"negative"})
    match_label: ClassVar[float] = 0.0

    def __call__(self, batch: LossBatch) -> Tensor:
        """The mean over the whole batch."""
        image, text = batch.features()
        negative, has = hard_captions(image, batch.require("negative"), batch.has_negative)
        right = batch.scale * (image * text).sum(1, keepdim=True)
        wrong = batch.scale * torch.einsum("bnd,bd->bn", negative, image)
        logits = torch.cat([right, wrong.masked_fill(~has, -torch.inf)], dim=1)
        losses = logits.logsumexp(1) - logits[:, 0]
        return global_mean(losses, has.any(1).to(losses.dtype))


def hard_captions(image: Tensor, others: Tensor, has: Tensor | None) -> tuple[Tensor, Tensor]:
    """Features of hard captions as (b, n, d) in the dtype of the images, and presence as (b, n).

    Raises:
        InputError: their shapes do not suit the images.
    """
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
            f"presence has shape {tuple(has.shape)}; hard captions are {tuple(others.shape[:2])}."
        )
    return others.to(image.dtype), has
