"""EqSim of a fusion encoder, which scores a few pairs and not the whole matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.tune.losses.eqsim import EqSim
from contrapose.tune.losses.gather import summed


def eqsim_of_scores(
    own: Tensor,
    captions: Tensor,
    images: Tensor,
    others: Tensor,
    *,
    close: Tensor | None = None,
    settings: EqSim | None = None,
) -> Tensor:
    """EqSim over sampled pairs, as for METER: 15 an image, 8 of them close.

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
        loss = loss + _mean(d, counted, margin, settings)
    if settings.v2:
        counted = torch.ones_like(near) if settings.v2 == "all" else near
        for term in (e - d, e + d):
            loss = loss + _mean(term, counted, settings.margin, settings)
    return loss


def _mean(term: Tensor, counted: Tensor, margin: float, settings: EqSim) -> Tensor:
    squares = term.square()
    if settings.hinge == "pair":
        squares = (squares - margin).clamp(min=0)
    total = summed((squares * counted).sum()) / summed(counted.sum()).clamp(min=1)
    return total if settings.hinge == "pair" else (total - margin).clamp(min=0)
