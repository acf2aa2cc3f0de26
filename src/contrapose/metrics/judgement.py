"""Yes/no judgement of single pairs: thresholds, calibration error.

A score at or above a threshold says yes. The best threshold is chosen on other pairs than those it
is used on, so that the accuracy at it is not flattered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.statistics.resampling import cluster_codes
from contrapose.metrics.statistics.statistic import Statistic, divide
from contrapose.metrics.types import BoolArray, FloatArray, IntArray, require_finite

FOLDS = 5
"""Parts of a cross-fit."""

BINS = 15
"""Bins of equal width of the calibration error."""


def best_threshold(scores: ArrayLike, labels: ArrayLike) -> float:
    """Threshold at which most judgements are right.

    It lies midway between two neighboring scores, or is infinite where the same answer to all is
    best. Of several best ones the middle one is taken.

    Args:
        scores: (k,) score of each pair.
        labels: (k,) whether image and caption belong together.

    Raises:
        InputError: there are no scores, one is not finite, or the lengths differ.
    """
    values, truth = _check_pairs(scores, labels)
    if not len(values):
        raise InputError("a threshold needs at least one score.")
    levels, position = np.unique(values, return_inverse=True)
    return _best_of_levels(levels, position[truth], position[~truth])


def _best_of_levels(levels: FloatArray, yes: IntArray, no: IntArray) -> float:
    """Best threshold of pairs that belong together or not, by their positions among the levels."""
    right = np.bincount(yes, minlength=len(levels))
    wrong = np.bincount(no, minlength=len(levels))
    present = right + wrong > 0
    if not present.all():
        levels, right, wrong = levels[present], right[present], wrong[present]
    # Threshold i says yes from levels[i] on; the last one says no to all.
    no_right = np.concatenate([[0], np.cumsum(wrong)])
    yes_right = np.concatenate([np.cumsum(right[::-1])[::-1], [0]])
    total = no_right + yes_right
    best = np.flatnonzero(total == total.max())
    i = int(best[(len(best) - 1) // 2])
    if i in (0, len(levels)):
        return -math.inf if i == 0 else math.inf
    middle = float(levels[i - 1] / 2 + levels[i] / 2)
    return middle if levels[i - 1] < middle else float(levels[i])


@dataclass(frozen=True, slots=True, eq=False)
class CrossFit:
    """Cross-fit of a threshold.

    Attributes:
        thresholds: one for each fold, chosen on all the others.
        fold: (k,) fold of each pair.
    """

    thresholds: tuple[float, ...]
    fold: IntArray


def cross_fit(
    scores: ArrayLike,
    labels: ArrayLike,
    clusters: IntArray | None = None,
    *,
    folds: int = FOLDS,
    seed: int = 0,
) -> CrossFit | None:
    """Choose thresholds by cross-fitting; None with fewer than two clusters.

    Args:
        scores: (k,) score of each pair.
        labels: (k,) whether image and caption belong together.
        clusters: (k,) codes ≥ 0; pairs with one code are in one fold. None: all apart.
        folds: how many; fewer where there are fewer clusters.
        seed: of the division into folds.
    """
    values, truth = _check_pairs(scores, labels)
    codes, units = cluster_codes(clusters, len(values))
    if units < 2:
        return None
    folds = min(folds, units)
    shuffled = np.random.default_rng(seed).permutation(units) % folds
    fold = shuffled if codes is None else shuffled[codes]
    levels, position = np.unique(values, return_inverse=True)
    yes, no = np.flatnonzero(truth), np.flatnonzero(~truth)
    sides = [(position[side], fold[side]) for side in (yes, no)]
    thresholds = tuple(
        _best_of_levels(levels, *(at[of != part] for at, of in sides)) for part in range(folds)
    )
    return CrossFit(thresholds, fold)


def calibration_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    bins: int = BINS,
) -> Statistic:
    """Expected calibration error: |share of yes labels − mean probability|, averaged over bins.

    Bins have equal width and count by their pairs (Guo et al., On Calibration of Modern Neural
    Networks, 2017). A small sample raises it: even a calibrated model is above 0.

    Args:
        probabilities: (k,) probability that image and caption belong together.
        labels: (k,) whether they do.
        weights: (k,) how much a pair counts; None: all alike.
        bins: how many.

    Raises:
        InputError: a probability is not between 0 and 1.
    """
    values, truth = _check_pairs(probabilities, labels)
    if ((values < 0) | (values > 1)).any():
        raise InputError("a calibration error needs probabilities between 0 and 1.")
    weight = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    columns = np.zeros((bins + 1, len(values))).T
    bin_of = np.minimum((values * bins).astype(np.int64), bins - 1)
    columns[np.arange(len(values)), bin_of] = weight * (truth - values)
    columns[:, bins] = weight

    def formula(totals: FloatArray) -> FloatArray:
        return divide(np.abs(totals[:, :bins]).sum(axis=1), totals[:, bins])

    return Statistic(columns, formula)


def _check_pairs(scores: ArrayLike, labels: ArrayLike) -> tuple[FloatArray, BoolArray]:
    values, truth = require_finite(scores, "scores"), np.asarray(labels, dtype=np.bool_)
    if values.ndim != 1 or truth.shape != values.shape:
        raise InputError(f"{values.shape} scores but {truth.shape} labels; one a pair is needed.")
    return values, truth
