"""EqSim on the match scores of a fusion encoder, for a few sampled pairs (Wang et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses.batch import LossBatch, at_least_float32
from contrapose.losses.eqsim import EqSim
from contrapose.losses.eqsim_tiled import sample_columns, top_columns
from contrapose.losses.gather import all_gather, all_reduce_sum, processes
from contrapose.losses.registry import register_loss


def eqsim_of_scores(
    right: Tensor,
    captions: Tensor,
    images: Tensor,
    others: Tensor,
    *,
    close: Tensor | None = None,
    settings: EqSim | None = None,
) -> Tensor:
    """EqSim of sampled pairs that a fusion encoder judges, over all processes.

    Args:
        right: (b,) scores s(I_i, T_i) of the matched pairs.
        captions: (b, n) scores s(I_i, T_j) with sampled captions.
        images: (b, n) scores s(I_j, T_i) of these captions' images.
        others: (b, n) scores s(I_j, T_j) of the sampled pairs themselves.
        close: (b, n) which of them are close; all without it.
        settings: `similarity` says whether scores are logits for a sigmoid (the default here) or
            similarities as they are (`cosine`); versions, margins and hinge as in `EqSim`.

    Raises:
        InputError: shapes do not fit, or the similarity is a softmax.
    """
    settings = settings or EqSim(similarity="sigmoid")
    if settings.similarity == "softmax":
        raise InputError("a few sampled scores have no softmax over the batch: use a sigmoid.")
    close = torch.ones_like(captions) if close is None else close
    if captions.ndim != 2 or not (
        captions.shape == images.shape == others.shape == close.shape
        and right.shape == captions.shape[:1]
    ):
        shapes = ", ".join(str(tuple(it.shape)) for it in (right, captions, images, others, close))
        raise InputError(f"scores have shapes {shapes}: they must be (b,) and three of (b, n).")
    dtype = at_least_float32(right.dtype)
    four = [it.to(dtype) for it in (right[:, None], captions, images, others)]
    if settings.similarity == "sigmoid":
        four = [it.sigmoid() for it in four]
    close = close.to(dtype)
    v1 = 1 - close if settings.v1 == "easy" else torch.ones_like(close)
    v2 = close if settings.v2 == "close" else torch.ones_like(close)
    in_v1, in_v2 = ((it, all_reduce_sum(it.sum()).clamp(min=1)) for it in (v1, v2))
    s11, s12, s21, s22 = four
    return settings.loss(s11, s12, s21, s22, in_v1, in_v2, lambda it: all_reduce_sum(it.sum()))


@register_loss
@dataclass(frozen=True, slots=True)
class EqSimMatch:
    """Equivariance regularizer on the match scores of a fusion encoder.

    Computes: `EqSim` on σ(match logit) of each pair with n sampled others, k of them the captions
        nearest to its image by cosine, the rest drawn evenly; v2 over the k near ones (Wang et al.
        2023, section 3: 15 others an image, 8 of them close).
    Inputs: `image`, `text` for the choice of close pairs; `match`.
    Requirements: a model that judges pairs; 1 + 2n judgements a pair.
    When to use: beside a matching loss; the paper has weights β of 0.2, 0.5 and 1. Its effect was
        not measured here (docs/repair.md has that of `EqSim`).

    Example:
        >>> batch = LossBatch(image, text, match=match)
        >>> loss = EqSimMatch(sampled=5, settings=EqSim(similarity="sigmoid", close=2))(batch)
    """

    name: ClassVar[str] = "eqsim-match"
    weight: ClassVar[float] = 0.5
    needs: ClassVar[frozenset[str]] = frozenset({"match"})

    sampled: int = 15
    """n: how many other pairs are judged with each pair."""
    settings: EqSim = field(default_factory=lambda: EqSim(similarity="sigmoid"))
    """Versions, margins, and k: how many of the others are close."""

    def __call__(self, batch: LossBatch) -> Tensor:
        """The loss of the whole batch."""
        if batch.match is None:
            raise InputError("this loss needs `match`, and the batch has none.")
        image, text = batch.pairs()
        first = processes().rank * len(image)
        with torch.no_grad():
            cosines = image @ all_gather(text).T
            cosines.diagonal(first).fill_(-torch.inf)
            count = min(self.sampled, cosines.shape[1] - 1)
            near = top_columns(cosines, min(self.settings.close, count))
            rest = torch.zeros_like(cosines).scatter_(1, near, -torch.inf)
            rest.diagonal(first).fill_(-torch.inf)
            others = torch.cat([near, sample_columns(rest, count - near.shape[1])], dim=1)
        rows = first + torch.arange(len(image), device=others.device)
        anchors = rows[:, None].expand_as(others).flatten()
        right = batch.match(rows, rows)
        captions = batch.match(anchors, others.flatten()).view_as(others)
        images = batch.match(others.flatten(), anchors).view_as(others)
        close = torch.arange(count, device=others.device).expand_as(others) < near.shape[1]
        return eqsim_of_scores(
            right, captions, images, all_gather(right)[others], close=close, settings=self.settings
        )
