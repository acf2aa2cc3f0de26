"""EqSim, the equivariance regularizer, for dual encoders and for sampled fusion scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses.batch import Batch
from contrapose.losses.eqsim_tiled import EqSimState
from contrapose.losses.gather import all_reduce_sum
from contrapose.losses.tiled import pairwise


@dataclass(frozen=True, slots=True)
class EqSim:
    """EqSim, an equivariance regularizer on any two matched pairs; needs no annotation.

    When to use: beside a retrieval loss, with a weight β of 0.2, 0.5 or 1, where the model misses
    small changes. `pairwise` computes it together with `InfoNCE` on the same cosines.

    Inputs: unit vectors (b, d) of images and captions; a scale, and for sigmoids a bias, where
    similarities are not plain cosines.

    Equation (Wang et al. 2023, equation 6), for S_ij = s(I_i, T_j) and two pairs i ≠ j:
    v1 = (S_ij − S_ji)²; v2 = ((S_ii − S_ij) − (S_jj − S_ji))² + ((S_ii − S_ji) − (S_jj − S_ij))²,
    which is 2(S_ii − S_jj)² + 2(S_ij − S_ji)². Each squared term becomes max(term − margin, 0),
    pair by pair or once on its mean. The loss is the mean of v1 over all pairs plus that of v2 over
    close ones: for each i the k captions nearest to its image and the k images nearest to its
    caption. A pair that is close in several ways counts as often.

    Cost: for cosines with the margin on the mean, v1 comes from the cosines that are kept, or from
    Gram matrices (`grams`); the rest goes tile by tile.

    Example:
        nce, eq = pairwise(image, text, [InfoNCE(), EqSim()], scale=temperature())
        loss = nce + 0.5 * eq
    """

    v1: Literal["all", "easy"] | None = "all"
    """Over all pairs; over those not close, as a share of all B² entries; or not at all."""
    v2: Literal["close", "all"] | None = "close"
    """Over close pairs, over all, or not at all."""
    similarity: Literal["cosine", "softmax", "sigmoid"] = "cosine"
    """Cosines; a softmax of the scaled ones over the captions of each image; a sigmoid of each."""
    margin: float = 0.0
    """Of v2, and of v1 where it has none of its own."""
    margin_v1: float | None = None
    hinge: Literal["mean", "pair"] = "mean"
    """Where the margin is taken off: the mean of the terms, or each of them."""
    close: int = 8
    """How many captions and how many images are close."""
    chosen: Literal["top", "drawn"] = "top"
    """Close are the nearest, or draws without replacement by the softmax of the scaled cosines."""

    def __post_init__(self) -> None:
        if self.v1 is None and self.v2 is None:
            raise InputError("EqSim without v1 and v2 is no loss: choose one of them.")
        if self.v1 == "easy" and self.v2 != "close":
            raise InputError(
                "easy pairs of v1 are those that v2 leaves: choose v2 over close ones."
            )
        if self.close < 1:
            raise InputError(f"EqSim needs at least one close pair a row, not {self.close}.")
        if self.margin < 0 or (self.margin_v1 or 0) < 0:
            raise InputError("a margin of EqSim is below zero: give 0 or more.")

    @classmethod
    def paper(cls, margin: float = 0.04) -> EqSim:
        """Settings of the paper: softmaxed scores, each term hinged, the 8 nearest.

        It chose the margin among 0, 0.04 and 0.1, and does not say which.
        """
        return cls(similarity="softmax", margin=margin, hinge="pair")

    @classmethod
    def released(cls) -> EqSim:
        """Settings of the authors' code and README; its β is 0.5.

        Row-softmaxed scores; 4 captions and 4 images drawn a pair; the margin of 0.1 taken off the
        mean of v2's terms; v1 without a margin and over the pairs that were not drawn. The code
        draws for a process's own pairs only; here for those of all processes.
        """
        return cls(
            v1="easy", similarity="softmax", margin=0.1, margin_v1=0.0, close=4, chosen="drawn"
        )

    def __call__(
        self,
        image: Tensor,
        text: Tensor,
        *,
        scale: Tensor | float = 1.0,
        bias: Tensor | float = 0.0,
        tile: int | None = None,
        keep: int | None = None,
    ) -> Tensor:
        """The loss of the whole batch; the arguments are those of `pairwise`."""
        if keep is None and self.v2 != "close":
            keep = 0  # alone it is quicker by Gram matrices
        (loss,) = pairwise(image, text, [self], scale=scale, bias=bias, tile=tile, keep=keep)
        return loss

    def begin(self, batch: Batch) -> EqSimState:
        """Create the state for a batch."""
        return EqSimState(self, batch)


PRESETS: dict[str, Callable[[], EqSim]] = {
    "default": EqSim,
    "paper": EqSim.paper,
    "released": EqSim.released,
}
"""Settings by name."""


def eqsim_from_scores(
    own: Tensor,
    captions: Tensor,
    images: Tensor,
    others: Tensor,
    *,
    close: Tensor | None = None,
    settings: EqSim | None = None,
) -> Tensor:
    """EqSim over sampled pairs of a fusion encoder, as for METER: 15 an image, 8 close.

    Args:
        own: (b,) scores of the right pairs, s(I_i, T_i).
        captions: (b, n) scores of image i with sampled captions, s(I_i, T_j).
        images: (b, n) of these captions' images with caption i, s(I_j, T_i).
        others: (b, n) of the sampled pairs themselves, s(I_j, T_j).
        close: (b, n) which of them are close; all without it.
        settings: `similarity` says whether scores are logits that go through a sigmoid (the default
            here) or are taken as they are (`cosine`); v1, v2, margins and hinge as usual.

    Raises:
        InputError: shapes do not fit, or a softmax is asked for.
    """
    settings = settings or EqSim(similarity="sigmoid")
    if settings.similarity == "softmax":
        raise InputError("a few sampled scores have no softmax over the batch: use a sigmoid.")
    if captions.ndim != 2 or not (
        captions.shape == images.shape == others.shape and own.shape == captions.shape[:1]
    ):
        shapes = ", ".join(str(tuple(it.shape)) for it in (own, captions, images, others))
        raise InputError(f"scores have shapes {shapes}: they must be (b,) and three of (b, n).")
    near = torch.ones_like(captions) if close is None else close.to(captions.dtype)
    if near.shape != captions.shape:
        raise InputError(f"`close` has shape {tuple(near.shape)}, scores {tuple(captions.shape)}.")
    exact = torch.promote_types(own.dtype, torch.float32)
    own, captions, images, others, near = (
        it.to(exact) for it in (own, captions, images, others, near)
    )
    if settings.similarity == "sigmoid":
        own, captions, images, others = (it.sigmoid() for it in (own, captions, images, others))
    d, e = captions - images, own[:, None] - others
    loss = own.new_zeros(())
    if settings.v1:
        margin = settings.margin if settings.margin_v1 is None else settings.margin_v1
        counted = 1 - near if settings.v1 == "easy" else torch.ones_like(near)
        loss = loss + _hinged_mean(d, counted, margin, settings)
    if settings.v2:
        counted = torch.ones_like(near) if settings.v2 == "all" else near
        for term in (e - d, e + d):
            loss = loss + _hinged_mean(term, counted, settings.margin, settings)
    return loss


def _hinged_mean(term: Tensor, counted: Tensor, margin: float, settings: EqSim) -> Tensor:
    squares = term.square()
    if settings.hinge == "pair":
        squares = (squares - margin).clamp(min=0)
    total = all_reduce_sum((squares * counted).sum()) / all_reduce_sum(counted.sum()).clamp(min=1)
    return total if settings.hinge == "pair" else (total - margin).clamp(min=0)
