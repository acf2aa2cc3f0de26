"""Metrics of one image with a caption, a foil (VALSE) and a hard positive.

Scores are (k, 2), caption then foil. The released script works on match logits, asks `caption > ½`
and `foil ≤ ½` of the match probability, and drops the items whose foil lies exactly on ½ from all
of its numbers: `official_mask` tells which it keeps. (Parcalabescu et al., VALSE, 2022.)

Each example is one image with the original caption c, a hard negative n and a hard positive p, a
rewording of c that keeps its meaning; its scores are (k, 3) in the order c, n, p.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.statistics.statistic import Statistic, minimum_of_means
from contrapose.metrics.types import (
    BoolArray,
    FloatArray,
    Outcome,
    binary_outcome,
    real_outcome,
    require_shape,
    widen,
)

FoilProtocol = Literal["strict", "official"]


def pairwise_accuracy(scores: ArrayLike) -> Outcome:
    """Pairwise accuracy `s(caption) > s(foil)`, VALSE's acc_r. Chance ½."""
    caption, foil = _foil_columns(scores)
    return binary_outcome(caption > foil, caption == foil, 1 / 2)


def p_c(scores: ArrayLike, threshold: float = 0.5) -> Outcome:
    """Caption precision `s(caption) > threshold`. Chance ½ is that of a coin."""
    caption, _ = _foil_columns(scores)
    return binary_outcome(caption > threshold, caption == threshold, 1 / 2)


def p_f(scores: ArrayLike, threshold: float = 0.5, *, protocol: FoilProtocol = "strict") -> Outcome:
    """Foil precision `s(foil) < threshold`. Chance ½ is that of a coin.

    Args:
        scores: (k, 2) caption, foil.
        threshold: separates fitting from not fitting.
        protocol: "official" asks `s(foil) ≤ threshold`.
    """
    if protocol not in ("strict", "official"):
        raise InputError(f"protocol must be 'strict' or 'official', not {protocol!r}.")
    _, foil = _foil_columns(scores)
    fits = foil <= threshold if protocol == "official" else foil < threshold
    return binary_outcome(fits, foil == threshold, 1 / 2)


def acc(scores: ArrayLike, threshold: float = 0.5, *, protocol: FoilProtocol = "strict") -> Outcome:
    """The mean of p_c and p_f: 0, ½ or 1 an example. Chance ½."""
    caption, foil = p_c(scores, threshold), p_f(scores, threshold, protocol=protocol)
    return Outcome((caption.values + foil.values) / 2, caption.ties | foil.ties, 1 / 2)


def min_precision(
    scores: ArrayLike, threshold: float = 0.5, *, protocol: FoilProtocol = "strict"
) -> Statistic:
    """min(p_c, p_f), which no constant answer can raise: a number of the set, not of an example."""
    return minimum_of_means(
        p_c(scores, threshold).values, p_f(scores, threshold, protocol=protocol).values
    )


def official_mask(scores: ArrayLike, threshold: float = 0.5) -> BoolArray:
    """(k,) mask of the examples that the released script counts: foil score not exactly ½."""
    _, foil = _foil_columns(scores)
    return np.asarray(foil != threshold)


def _foil_columns(scores: ArrayLike) -> tuple[FloatArray, FloatArray]:
    pairs = require_shape(widen(scores), (None, 2), "scores of captions and foils")
    return pairs[:, 0], pairs[:, 1]


def original_accuracy(scores: ArrayLike) -> Outcome:
    """Original accuracy `s(c) > s(n)`, without hard positives. Chance 1/2."""
    c, n, _ = _triple_columns(scores)
    return binary_outcome(c > n, c == n, 1 / 2)


def augmented_accuracy(scores: ArrayLike) -> Outcome:
    """Augmented accuracy `s(c) > s(n)` and `s(p) > s(n)`. Chance 1/3: n is the lowest of three."""
    c, n, p = _triple_columns(scores)
    return binary_outcome((c > n) & (p > n), (c == n) | (p == n), 1 / 3)


def brittleness(scores: ArrayLike) -> Outcome:
    """Brittleness: n scores between c and p, so that the wording decides. Chance 1/3."""
    c, n, p = _triple_columns(scores)
    between = ((c > n) & (n > p)) | ((p > n) & (n > c))
    return binary_outcome(between, (c == n) | (p == n), 1 / 3)


def original_only(scores: ArrayLike) -> Outcome:
    """First half of brittleness, s(c) > s(n) > s(p): oversensitivity to wording. Chance 1/6."""
    c, n, p = _triple_columns(scores)
    return binary_outcome((c > n) & (n > p), (c == n) | (p == n), 1 / 6)


def positive_only(scores: ArrayLike) -> Outcome:
    """Second half of brittleness, s(p) > s(n) > s(c): only the hard positive wins. Chance 1/6."""
    c, n, p = _triple_columns(scores)
    return binary_outcome((p > n) & (n > c), (c == n) | (p == n), 1 / 6)


def mean_score(scores: ArrayLike) -> Outcome:
    """Score `s(c)` of the right caption, to see whether tuning lowered it."""
    c, _, _ = _triple_columns(scores)
    return real_outcome(c)


def _triple_columns(scores: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    array = require_shape(widen(scores), (None, 3), "scores of hard positives")
    c, n, p = np.moveaxis(array, 1, 0)
    return c, n, p
