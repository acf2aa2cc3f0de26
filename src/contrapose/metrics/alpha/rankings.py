"""For which α does a right text come first among all texts of a gallery?

With log s_α = lm − α·log P(T), the right text r of an image beats a wrong one on an open half-line
of α, and all wrong ones on an open interval; an image with several right texts is right on the
union of theirs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.alpha.intervals import Intervals, half_lines
from contrapose.metrics.types import FloatArray, IntArray, finite, of_shape, wide

CELLS = 1 << 22
"""Scores looked at together."""


def first_intervals(lm: ArrayLike, log_prior: ArrayLike, pairs: ArrayLike) -> Intervals:
    """Where one of an image's right texts is ahead of every wrong one.

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
    scores = of_shape(np.asarray(wide(lm), dtype=np.float64), (None, None), "log-likelihoods")
    prior = of_shape(finite(log_prior, "log priors"), (scores.shape[1],), "log priors")
    listed = np.unique(np.asarray(pairs, dtype=np.int64).reshape(-1, 2), axis=0)
    if not len(listed):
        raise InputError("no text belongs to an image, so α has nothing to choose.")
    right = np.zeros(scores.shape, dtype=np.bool_)
    right[listed[:, 0], listed[:, 1]] = True
    texts = _in_columns(listed, len(scores))
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
    return Intervals(*_merged(lower, upper))


def _in_columns(pairs: IntArray, images: int) -> IntArray:
    """(n, u) the texts of each image; −1 where it has fewer."""
    counts = np.bincount(pairs[:, 0], minlength=images)
    starts = np.cumsum(counts) - counts
    texts = np.full((images, counts.max()), -1, dtype=np.int64)
    texts[pairs[:, 0], np.arange(len(pairs)) - starts[pairs[:, 0]]] = pairs[:, 1]
    return texts


def _merged(lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same union as disjoint intervals, row by row."""
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
