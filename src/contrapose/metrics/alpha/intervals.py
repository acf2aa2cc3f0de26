"""Intervals of α on which an example is right, in a choice among captions or in a gallery.

With log s_α = lm − α·log P(T), a right caption r beats a wrong one w under image i exactly when

    lm_ir − lm_iw > α·(p_r − p_w),      p = log P(T):

an open half-line of α, or all of it or nothing where p_r = p_w. An example is right where all its
comparisons hold, on an open interval. The prior of a caption is the same for every image, so no
comparison between images moves, and the image score does not depend on α.

In a gallery the right text r of an image beats each wrong one on an open half-line of α, and all of
them on an open interval; an image with several right texts is right on the union of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.pairs import image_score
from contrapose.metrics.types import (
    BoolArray,
    FloatArray,
    IntArray,
    require_finite,
    require_shape,
    widen,
)


@dataclass(frozen=True, slots=True, eq=False)
class AlphaIntervals:
    """Interval of α on which each of k examples is right: lower < α < upper, else empty.

    Attributes:
        lower: (k,), or (k, u) where an example is right on a union of u disjoint intervals.
        upper: shaped alike.
    """

    lower: FloatArray
    upper: FloatArray

    def right_at(self, alpha: float) -> BoolArray:
        """(k,) mask of the examples that are right at this α."""
        inside = (self.lower < alpha) & (alpha < self.upper)
        return inside if inside.ndim == 1 else np.asarray(inside.any(axis=1))

    def only(self, chosen: ArrayLike) -> AlphaIntervals:
        """Intervals of a subset of the examples, by mask or positions."""
        index = np.asarray(chosen)
        return AlphaIntervals(self.lower[index], self.upper[index])


def text_intervals(
    lm: ArrayLike, log_prior: ArrayLike, match: ArrayLike, present: ArrayLike | None = None
) -> AlphaIntervals:
    """Intervals of α on which the text score of each example holds.

    Args:
        lm: (k, m, n) log-likelihoods of n captions under m images.
        log_prior: (k, n) the captions' log priors.
        match: (k, m, n) or (m, n), true where image and caption belong together.
        present: which cells stand, shaped as `match`; None means all.

    Raises:
        InputError: shapes do not fit, a likelihood is NaN, or a prior is not finite.
    """
    scores, prior, right, standing = _check_choices(lm, log_prior, match, present)
    wrong = standing & ~right
    lower, upper = _real_line(len(scores))
    for r in range(scores.shape[2]):
        # All wrong captions of every image against caption r, where r is right.
        compared = wrong & right[:, :, r : r + 1]
        if not compared.any():
            continue
        with np.errstate(invalid="ignore"):
            gain = scores[:, :, r : r + 1] - scores
        low, high = half_lines(gain, (prior[:, r : r + 1] - prior)[:, None, :])
        lower = np.maximum(lower, np.where(compared, low, -np.inf).max(axis=(1, 2)))
        upper = np.minimum(upper, np.where(compared, high, np.inf).min(axis=(1, 2)))
    return AlphaIntervals(lower, upper)


def group_intervals(
    lm: ArrayLike, log_prior: ArrayLike, match: ArrayLike, present: ArrayLike | None = None
) -> AlphaIntervals:
    """Intervals of α on which the group score holds: the text score's interval or empty.

    Arguments are those of `text_intervals`.
    """
    text = text_intervals(lm, log_prior, match, present)
    lost = image_score(lm, match, present).values == 0
    return AlphaIntervals(np.where(lost, np.inf, text.lower), np.where(lost, -np.inf, text.upper))


def original_intervals(lm: ArrayLike, log_prior: ArrayLike) -> AlphaIntervals:
    """Intervals of α on which `s(c) > s(n)`, for (k, 3) captions c, n, p."""
    scores, prior = _check_triples(lm, log_prior)
    return AlphaIntervals(*_ends_of_win(scores, prior, 0, 1))


def augmented_intervals(lm: ArrayLike, log_prior: ArrayLike) -> AlphaIntervals:
    """Intervals of α on which `s(c) > s(n)` and `s(p) > s(n)`, for (k, 3) captions c, n, p."""
    scores, prior = _check_triples(lm, log_prior)
    return AlphaIntervals(
        *_intersect(_ends_of_win(scores, prior, 0, 1), _ends_of_win(scores, prior, 2, 1))
    )


def brittle_intervals(lm: ArrayLike, log_prior: ArrayLike) -> AlphaIntervals:
    """Intervals of α on which n scores between c and p: a union of two disjoint intervals."""
    scores, prior = _check_triples(lm, log_prior)
    one = _intersect(_ends_of_win(scores, prior, 0, 1), _ends_of_win(scores, prior, 1, 2))
    other = _intersect(_ends_of_win(scores, prior, 2, 1), _ends_of_win(scores, prior, 1, 0))
    return AlphaIntervals(
        np.stack([one[0], other[0]], axis=1), np.stack([one[1], other[1]], axis=1)
    )


IntervalEnds = tuple[FloatArray, FloatArray]


TIE_AT_ONE = 1e-12
"""Relative difference of gain and cost that rounding of the likelihoods can make."""


def half_lines(gain: FloatArray, cost: FloatArray) -> IntervalEnds:
    """End points of {α : gain > α·cost}: a half-line, all of the line, or the empty set.

    A gain that is NaN (both likelihoods zero) is a tie, and holds nowhere. A gain that equals the
    cost but for rounding is a tie at α = 1.
    """
    gain, cost = np.broadcast_arrays(gain, cost)
    with np.errstate(over="ignore", invalid="ignore"):
        crossing = np.divide(gain, cost, out=np.zeros(gain.shape), where=cost != 0)
        near = np.abs(gain - cost) <= TIE_AT_ONE * np.abs(cost)
    crossing[near & (cost != 0)] = 1.0
    holds_flat = gain > 0
    lower = np.where(cost < 0, crossing, np.where((cost > 0) | holds_flat, -np.inf, np.inf))
    upper = np.where(cost > 0, crossing, np.where((cost < 0) | holds_flat, np.inf, -np.inf))
    tie = np.isnan(gain)
    return np.where(tie, np.inf, lower), np.where(tie, -np.inf, upper)


def _ends_of_win(scores: FloatArray, prior: FloatArray, first: int, second: int) -> IntervalEnds:
    """End points of the α at which caption `first` beats caption `second`."""
    with np.errstate(invalid="ignore"):
        gain = scores[:, first] - scores[:, second]
    return half_lines(gain, prior[:, first] - prior[:, second])


def _intersect(a: IntervalEnds, b: IntervalEnds) -> IntervalEnds:
    return np.maximum(a[0], b[0]), np.minimum(a[1], b[1])


def _real_line(k: int) -> IntervalEnds:
    return np.full(k, -np.inf), np.full(k, np.inf)


def _check_choices(
    lm: ArrayLike, log_prior: ArrayLike, match: ArrayLike, present: ArrayLike | None
) -> tuple[FloatArray, FloatArray, BoolArray, BoolArray]:
    """Check likelihoods, priors, right and present cells; absent cells become zero."""
    shape = require_shape(np.asarray(lm), (None, None, None), "log-likelihoods").shape
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
    scores = np.where(standing, widen(lm, present=standing), 0.0).astype(np.float64)
    require_shape(np.asarray(log_prior), (shape[0], shape[2]), "log priors")
    prior = np.where(standing.any(axis=1), np.asarray(log_prior, dtype=np.float64), 0.0)
    return scores, require_finite(prior, "log priors"), right, standing


def _check_triples(lm: ArrayLike, log_prior: ArrayLike) -> tuple[FloatArray, FloatArray]:
    scores = require_shape(widen(lm), (None, 3), "log-likelihoods of hard positives")
    prior = require_shape(require_finite(log_prior, "log priors"), scores.shape, "log priors")
    return scores.astype(np.float64), prior


CELLS = 1 << 22
"""Scores compared at a time."""


def first_intervals(lm: ArrayLike, log_prior: ArrayLike, pairs: ArrayLike) -> AlphaIntervals:
    """Intervals of α on which one of an image's right texts ranks before every wrong one.

    Args:
        lm: (n, m) log-likelihoods of all texts under all images.
        log_prior: (m,) the texts' log priors.
        pairs: (p, 2) image and text that belong together.

    Returns:
        (n, u) disjoint intervals of each image, u the most right texts that one has; an image
        without any is right nowhere.

    Raises:
        InputError: shapes do not fit, a likelihood is NaN, or a prior is not finite.
    """
    scores = require_shape(np.asarray(widen(lm), dtype=np.float64), (None, None), "log-likelihoods")
    prior = require_shape(require_finite(log_prior, "log priors"), (scores.shape[1],), "log priors")
    listed = np.unique(np.asarray(pairs, dtype=np.int64).reshape(-1, 2), axis=0)
    if not len(listed):
        raise InputError("no text belongs to an image, so α has nothing to choose.")
    right = np.zeros(scores.shape, dtype=np.bool_)
    right[listed[:, 0], listed[:, 1]] = True
    texts = _texts_by_image(listed, len(scores))
    lower, upper = np.full(texts.shape, np.inf), np.full(texts.shape, -np.inf)
    step = max(1, CELLS // scores.shape[1])
    for column in range(texts.shape[1]):
        rows = np.flatnonzero(texts[:, column] >= 0)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            text = texts[some, column]
            with np.errstate(invalid="ignore"):
                gain = scores[some, text][:, None] - scores[some]
            low, high = half_lines(gain, prior[text][:, None] - prior)
            lower[some, column] = np.where(right[some], -np.inf, low).max(axis=1)
            upper[some, column] = np.where(right[some], np.inf, high).min(axis=1)
    return AlphaIntervals(*_merge_intervals(lower, upper))


def _texts_by_image(pairs: IntArray, images: int) -> IntArray:
    """(n, u) texts of each image, padded with −1."""
    counts = np.bincount(pairs[:, 0], minlength=images)
    starts = np.cumsum(counts) - counts
    texts = np.full((images, counts.max()), -1, dtype=np.int64)
    texts[pairs[:, 0], np.arange(len(pairs)) - starts[pairs[:, 0]]] = pairs[:, 1]
    return texts


def _merge_intervals(lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Merge the intervals of each row into disjoint ones."""
    empty = lower >= upper
    lower, upper = np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper)
    order = np.argsort(lower, axis=1, kind="stable")
    lower = np.take_along_axis(lower, order, axis=1)
    upper = np.take_along_axis(upper, order, axis=1)
    rows, last = np.arange(len(lower)), np.zeros(len(lower), dtype=np.int64)
    for column in range(1, lower.shape[1]):
        over = lower[:, column] < upper[rows, last]
        further = np.maximum(upper[rows, last], upper[:, column])
        upper[rows[over], last[over]] = further[over]
        lower[over, column], upper[over, column] = np.inf, -np.inf
        last = np.where(over, last, column)
    return lower, upper
