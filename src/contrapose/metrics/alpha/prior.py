"""A prior that may not be used."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.likelihood import log_prior as prior_of
from contrapose.metrics.types import of_shape, wide

TOLERANCE = 1e-6


def refuse_own_images(
    lm: ArrayLike, log_prior: ArrayLike, present: ArrayLike | None = None
) -> None:
    """Refuse a prior made from each example's own images.

    At α = 1 both comparisons of a 2 × 2 text score then become one and the same: with
    P(T) = (P(T|I₀) + P(T|I₁))/2 the score P(T|I₀)/P(T) is 2/(1 + P(T|I₁)/P(T|I₀)), so image 0
    prefers caption 0 exactly when P(T₀|I₀)/P(T₀|I₁) > P(T₁|I₀)/P(T₁|I₁), which is also when image 1
    prefers caption 1. Chance rises from 25 % to 50 %.

    Args:
        lm: (k, m, n) log-likelihoods.
        log_prior: (k, n) log priors.
        present: (k, m, n) which cells stand; None means all.

    Raises:
        InputError: m ≥ 2 and every log prior is that of the example's own images.
    """
    scores = of_shape(np.asarray(lm), (None, None, None), "log-likelihoods")
    k, m, n = scores.shape
    prior = of_shape(np.asarray(log_prior, dtype=np.float64), (k, n), "log priors")
    if m < 2 or not k:
        return
    standing = np.ones(scores.shape, dtype=np.bool_)
    if present is not None:
        standing = np.broadcast_to(np.asarray(present, dtype=np.bool_), scores.shape)
    checked = np.where(standing, wide(scores, present=standing), -np.inf)
    images = standing.sum(axis=1)
    # Cells that do not stand add nothing to the mean, which is then over those that do.
    with np.errstate(divide="ignore", invalid="ignore"):
        own = prior_of(checked.transpose(1, 0, 2)) + np.log(m / images)
        same = np.abs(own - prior) <= TOLERANCE
    asked = images >= 2
    if asked.any() and same[asked].all():
        raise InputError(
            "the prior is made from each example's own images, which makes the two comparisons of "
            "a text score one and raises chance from 25 % to 50 %; take noise images, other real "
            "images, or the whole benchmark's."
        )
