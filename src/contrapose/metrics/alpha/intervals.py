"""For which α is an example right?

With log s_α = lm − α·log P(T), a right caption r beats a wrong one w under image i exactly when

    lm_ir − lm_iw > α·(p_r − p_w),      p = log P(T):

an open half-line of α, or all of it or nothing where p_r = p_w. An example is right where all its
comparisons hold, on an open interval. The prior of a caption is the same for every image, so no
comparison between images moves, and the image score does not depend on α.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.pairs import image_score
from contrapose.metrics.types import BoolArray, FloatArray, finite, of_shape, wide


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Where each of k examples is right: lower < α < upper, nowhere when lower ≥ upper.

    Attributes:
        lower: (k,), or (k, u) where an example is right on a union of u disjoint intervals.
        upper: shaped alike.
    """

    lower: FloatArray
    upper: FloatArray

    def right_at(self, alpha: float) -> BoolArray:
        """(k,) the examples that are right at this α."""
        inside = (self.lower < alpha) & (alpha < self.upper)
        return inside if inside.ndim == 1 else np.asarray(inside.any(axis=1))

    def only(self, chosen: ArrayLike) -> Intervals:
        """Those of some examples, by mask or positions."""
        index = np.asarray(chosen)
        return Intervals(self.lower[index], self.upper[index])


def text_intervals(
    lm: ArrayLike, log_prior: ArrayLike, match: ArrayLike, present: ArrayLike | None = None
) -> Intervals:
    """Where the text score of each example holds.

    Args:
        lm: (k, m, n) log-likelihoods of n captions under m images.
        log_prior: (k, n) the captions' log priors.
        match: (k, m, n) or (m, n), true where image and caption belong together.
        present: which cells stand, shaped as `match`; None means all.

    Raises:
        InputError: shapes do not fit, a likelihood is NaN, or a prior is not finite.
    """
    scores, prior, right, standing = _checked(lm, log_prior, match, present)
    wrong = standing & ~right
    lower, upper = _everywhere(len(scores))
    for r in range(scores.shape[2]):
        # All wrong captions of every image against caption r, where r is right.
        asked = wrong & right[:, :, r : r + 1]
        if not asked.any():
            continue
        with np.errstate(invalid="ignore"):
            gain = scores[:, :, r : r + 1] - scores
        low, high = half_lines(gain, (prior[:, r : r + 1] - prior)[:, None, :])
        lower = np.maximum(lower, np.where(asked, low, -np.inf).max(axis=(1, 2)))
        upper = np.minimum(upper, np.where(asked, high, np.inf).min(axis=(1, 2)))
    return Intervals(lower, upper)


def group_intervals(
    lm: ArrayLike, log_prior: ArrayLike, match: ArrayLike, present: ArrayLike | None = None
) -> Intervals:
    """Where the group score of each example holds: the text score's interval or nothing.

    Arguments are those of `text_intervals`.
    """
    text = text_intervals(lm, log_prior, match, present)
    lost = image_score(lm, match, present).values == 0
    return Intervals(np.where(lost, np.inf, text.lower), np.where(lost, -np.inf, text.upper))


def original_intervals(lm: ArrayLike, log_prior: ArrayLike) -> Intervals:
    """Where `s(c) > s(n)`, for (k, 3) captions c, n, p."""
    scores, prior = _triples(lm, log_prior)
    return Intervals(*_beats(scores, prior, 0, 1))


def augmented_intervals(lm: ArrayLike, log_prior: ArrayLike) -> Intervals:
    """Where `s(c) > s(n)` and `s(p) > s(n)`, for (k, 3) captions c, n, p."""
    scores, prior = _triples(lm, log_prior)
    return Intervals(*_both(_beats(scores, prior, 0, 1), _beats(scores, prior, 2, 1)))


def brittle_intervals(lm: ArrayLike, log_prior: ArrayLike) -> Intervals:
    """Where `s(c) > s(n) > s(p)` or `s(p) > s(n) > s(c)`: a union of two disjoint intervals."""
    scores, prior = _triples(lm, log_prior)
    one = _both(_beats(scores, prior, 0, 1), _beats(scores, prior, 1, 2))
    other = _both(_beats(scores, prior, 2, 1), _beats(scores, prior, 1, 0))
    return Intervals(np.stack([one[0], other[0]], axis=1), np.stack([one[1], other[1]], axis=1))


Ends = tuple[FloatArray, FloatArray]


def half_lines(gain: FloatArray, cost: FloatArray) -> Ends:
    """Ends of {α : gain > α·cost}: above gain/cost, below it, everywhere, or nowhere.

    A gain that is NaN (both likelihoods zero) is a tie, and holds nowhere.
    """
    gain, cost = np.broadcast_arrays(gain, cost)
    with np.errstate(over="ignore"):
        crossing = np.divide(gain, cost, out=np.zeros(gain.shape), where=cost != 0)
    holds_flat = gain > 0
    lower = np.where(cost < 0, crossing, np.where((cost > 0) | holds_flat, -np.inf, np.inf))
    upper = np.where(cost > 0, crossing, np.where((cost < 0) | holds_flat, np.inf, -np.inf))
    tie = np.isnan(gain)
    return np.where(tie, np.inf, lower), np.where(tie, -np.inf, upper)


def _beats(scores: FloatArray, prior: FloatArray, first: int, second: int) -> Ends:
    """Ends of where caption `first` beats caption `second`."""
    with np.errstate(invalid="ignore"):
        gain = scores[:, first] - scores[:, second]
    return half_lines(gain, prior[:, first] - prior[:, second])


def _both(a: Ends, b: Ends) -> Ends:
    return np.maximum(a[0], b[0]), np.minimum(a[1], b[1])


def _everywhere(k: int) -> Ends:
    return np.full(k, -np.inf), np.full(k, np.inf)


def _checked(
    lm: ArrayLike, log_prior: ArrayLike, match: ArrayLike, present: ArrayLike | None
) -> tuple[FloatArray, FloatArray, BoolArray, BoolArray]:
    """Likelihoods, priors, right and standing cells; what does not stand is zero."""
    shape = of_shape(np.asarray(lm), (None, None, None), "log-likelihoods").shape
    standing = np.ones(shape, dtype=np.bool_)
    if present is not None:
        standing = np.broadcast_to(np.asarray(present, dtype=np.bool_), shape)
    right = np.broadcast_to(np.asarray(match, dtype=np.bool_), shape) & standing
    decides = np.asarray(right.any(axis=2) & (standing & ~right).any(axis=2))
    idle = ~np.asarray(decides.any(axis=1))
    if idle.any():
        raise InputError(
            f"example {int(idle.argmax())} has no right and wrong captions to tell apart, so α "
            "has nothing to choose."
        )
    scores = np.where(standing, wide(lm, present=standing), 0.0).astype(np.float64)
    of_shape(np.asarray(log_prior), (shape[0], shape[2]), "log priors")
    prior = np.where(standing.any(axis=1), np.asarray(log_prior, dtype=np.float64), 0.0)
    return scores, finite(prior, "log priors"), right, standing


def _triples(lm: ArrayLike, log_prior: ArrayLike) -> tuple[FloatArray, FloatArray]:
    scores = of_shape(wide(lm), (None, 3), "log-likelihoods of hard positives")
    prior = of_shape(finite(log_prior, "log priors"), scores.shape, "log priors")
    return scores.astype(np.float64), prior
