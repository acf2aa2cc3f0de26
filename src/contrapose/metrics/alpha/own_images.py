"""Refusal of a prior that was made from each example's own images.

At α = 1 both comparisons of a 2 × 2 text score then become one and the same: with
P(T) = (P(T|I₀) + P(T|I₁))/2 the score P(T|I₀)/P(T) is 2/(1 + P(T|I₁)/P(T|I₀)), so image 0 prefers
caption 0 exactly when P(T₀|I₀)/P(T₀|I₁) > P(T₁|I₀)/P(T₁|I₁), which is also when image 1 prefers
caption 1. Chance rises from 25 % to 50 %. With one image the prior is the likelihood itself, and at
α = 1 nothing but rounding is left to compare.

Where the prior comes from is not known here, so it is recognized by its numbers: by its distance to
the priors that own images give, within the rounding of what was written to a file, and by
comparisons that agree in nearly every example, whether they are right or wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import NoPriorError
from contrapose.metrics.likelihood import log_prior as prior_of
from contrapose.metrics.types import BoolArray, FloatArray, require_shape, widen

NEARLY_ALL = 0.95
"""Share of examples that is nearly every one."""
NEGLIGIBLE = 0.05
"""Distance to a prior of own images, in parts of what the images change, that changes no order."""
RELATIVE_ROUNDING = 1e-6
"""Rounding of float32 likelihoods, relative to 1 + their size."""
DECIMALS = range(1, 7)
"""Numbers of decimals that are recognized as rounding."""
FEWEST_EXAMPLES = 20
"""Examples that agree rightly, and as many that agree wrongly, from which agreement is telling."""


def refuse_own_images(
    lm: ArrayLike, log_prior: ArrayLike, present: ArrayLike | None = None
) -> None:
    """Refuse a prior made from each example's own images.

    Args:
        lm: (k, m, n) log-likelihoods.
        log_prior: (k, n) log priors.
        present: (k, m, n) which cells stand; None means all.

    Raises:
        NoPriorError: in nearly every example the prior is that of its own images within rounding,
            or its comparisons agree at α = 1.
    """
    scores = require_shape(np.asarray(lm), (None, None, None), "log-likelihoods")
    k, _, n = scores.shape
    prior = require_shape(np.asarray(log_prior, dtype=np.float64), (k, n), "log priors")
    standing = np.ones(scores.shape, dtype=np.bool_)
    if present is not None:
        standing = np.broadcast_to(np.asarray(present, dtype=np.bool_), scores.shape)
    values = widen(scores, present=standing).astype(np.float64)
    images, captions = standing.any(axis=2).sum(axis=1), standing.any(axis=1).sum(axis=1)
    finite = ~(standing & ~np.isfinite(values)).any(axis=(1, 2)) & ~(
        standing.any(axis=1) & ~np.isfinite(prior)
    ).any(axis=1)
    several = (images >= 2) & (captions >= 2) & finite
    single = (images == 1) & (captions >= 2) & finite
    for chosen, why in (
        (
            several,
            "which makes the two comparisons of a text score one and raises chance from 25 % to "
            "50 %",
        ),
        (single, "so that at α = 1 nothing but rounding is left to compare"),
    ):
        if not chosen.any():
            continue
        some = np.where(standing[chosen], values[chosen], np.nan)
        if _are_near(some, prior[chosen]) or _do_agree(some, prior[chosen]):
            raise NoPriorError(
                f"the prior is made from each example's own images, {why}; take noise images, "
                "other real images, or the whole benchmark's."
            )


def _are_near(lm: FloatArray, prior: FloatArray) -> bool:
    """Whether nearly every example's priors are those of its own images, but for rounding."""
    absent = np.isnan(lm).all(axis=1)
    tolerance = RELATIVE_ROUNDING * (1 + np.abs(prior)) + _find_rounding(prior)
    tolerance = tolerance + NEGLIGIBLE * np.median(_measure_interaction(lm))
    # A mean of rounded likelihoods is off by no more than they are.
    tolerance = tolerance + np.nanmax(np.where(np.isnan(lm), 0.0, _find_rounding(lm)), axis=1)
    for candidate in _own_priors(lm):
        distance = np.where(absent, np.nan, candidate - prior)
        near = ~(np.abs(distance) > tolerance).any(axis=1)  # NaN, without a caption, is near
        if near.mean() >= NEARLY_ALL:
            return True
    return False


def _own_priors(lm: FloatArray) -> Iterator[FloatArray]:
    """Priors (k, n) that an example's own images give: their mean, log mean, or one of them."""
    missing = np.isnan(lm)
    images = np.maximum((~missing).sum(axis=1), 1)
    with np.errstate(divide="ignore"):
        log_mean = prior_of(np.where(missing, -np.inf, lm).transpose(1, 0, 2))
        log_mean = log_mean + np.log(lm.shape[1] / images)
    yield log_mean
    yield _mean_known(lm, axis=1)[:, 0]
    for image in range(lm.shape[1]):
        if not missing[:, image].all(axis=1).any():
            yield lm[:, image]


def _measure_interaction(lm: FloatArray) -> FloatArray:
    """(k,) Largest part of a likelihood that is neither the image's nor the caption's alone."""
    rest = lm - _mean_known(lm, axis=1)
    return np.asarray(np.nanmax(np.abs(rest - _mean_known(rest, axis=2)), axis=(1, 2)))


def _mean_known(values: FloatArray, axis: int) -> FloatArray:
    """Mean of the values that are not NaN; 0 where there are none."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=axis, keepdims=True)
    return np.asarray(total / np.maximum(known.sum(axis=axis, keepdims=True), 1))


def _find_rounding(values: FloatArray) -> FloatArray:
    """Largest rounding error of each log value, where all were written with few decimals.

    They may have been written as probabilities. Values that were not rounded have none.
    """
    known = values[np.isfinite(values)]
    probabilities = np.exp(known)
    for decimals in DECIMALS:
        half = 0.5 * 10.0**-decimals
        if _is_rounded(known, decimals):
            return np.full(values.shape, half)
        if _is_rounded(probabilities, decimals):
            with np.errstate(over="ignore"):
                return np.asarray(half * np.exp(-values))
    return np.zeros(values.shape)


def _is_rounded(values: FloatArray, decimals: int) -> bool:
    scaled = values * 10.0**decimals
    return bool((np.abs(scaled - np.round(scaled)) <= 1e-9 * (1 + np.abs(scaled))).all())


def _do_agree(lm: FloatArray, prior: FloatArray) -> bool:
    """Whether the comparisons of 2 × 2 examples agree at α = 1, the right and the wrong ones.

    Whether both can be right or both wrong does not depend on the prior: a good model has most
    comparisons right, so agreement is telling only where many examples must be wrong.
    """
    if lm.shape[1:] != (2, 2) or np.isnan(lm).any():
        return False
    first, second = lm[:, 0, 0] - lm[:, 0, 1], lm[:, 1, 1] - lm[:, 1, 0]
    shift = prior[:, 0] - prior[:, 1]
    agree: BoolArray = (first - shift) * (second + shift) >= 0
    sides = (first + second > 0, first + second < 0)
    return all(side.sum() >= FEWEST_EXAMPLES and agree[side].mean() >= NEARLY_ALL for side in sides)
