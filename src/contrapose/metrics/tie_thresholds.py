"""Calibration of ties in scores against human ratings: which difference ε of two scores is a tie.

Deutsch, Foster and Freitag, Ties Matter, 2023 (arXiv:2305.14324). A pair is right where scores and
ratings are in the same strict order, or both tied; ε is the smallest with most right pairs. The
number of right pairs is C + T(ε) − K(ε): all pairs in the same order, and of the pairs that ε ties
those that people tie, less those in the same order. Between two thresholds ε₁ < ε₂ it is at most
C + T(ε₂) − K(ε₁), so that most thresholds are ruled out without looking at their pairs, and only
those that are left are gone through. T and K are counted in O(k log k) (`pair_counts`).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from threading import RLock
from typing import TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics import pair_counts
from contrapose.metrics.pair_counts import (
    RankCounts,
    check_ratings,
    find_runs,
    rank_levels,
    tie_bounds,
)
from contrapose.metrics.statistics.bootstrap import run_tasks
from contrapose.metrics.statistics.resampling import cluster_codes
from contrapose.metrics.types import FloatArray, IntArray

T = TypeVar("T")

MOST_EXAMPLES = 20_000
"""Examples up to which a threshold is the best of all differences; of more, that of a sample."""

MOST_LEVELS = 1_024
"""Distinct scores up to which it is the best of all differences, of any number of examples."""

MOST_PAIRS = 1 << 20
"""Pairs that a threshold of ties is chosen on when it is cross-fitted; of more, a sample is."""

SAMPLED_PAIRS = 1 << 21
"""Pairs in the sample of more than `MOST_EXAMPLES` examples."""

FOLDS = 5
"""Parts of the examples between which thresholds of ties are cross-fitted."""

HELD_PAIRS = 1 << 22
"""Pairs held at a time in the search for the best threshold."""

MOST_TRIALS = 2_000
"""Thresholds tried before the pairs that are left are gone through."""

Sweep = tuple[float, float]
"""Threshold, and the number of right pairs at it."""


def is_threshold_exact(scores: ArrayLike) -> bool:
    """Whether the threshold of so many scores is the best of all, not that of a sample of pairs."""
    values = np.asarray(scores)
    return len(values) <= MOST_EXAMPLES or len(find_runs(np.sort(values))[0]) <= MOST_LEVELS


def tie_threshold(scores: ArrayLike, ratings: ArrayLike) -> tuple[float, float]:
    """Threshold ε that calibrates ties, and the pairwise accuracy at it (Deutsch et al., 2023).

    Scores that differ by no more than ε are tied. A pair is right where scores and ratings are in
    the same strict order, or both tied. The smallest of the best thresholds is taken: 0, or the
    difference of two scores. It is chosen on the same pairs, so the accuracy is flattered a little.
    Of more than `MOST_EXAMPLES` examples with more than `MOST_LEVELS` distinct scores it is the
    best one on a sample of `SAMPLED_PAIRS` pairs; the accuracy is that of all pairs in any case.

    Args:
        scores: (k,) score of each example.
        ratings: (k,) rating of each.

    Raises:
        InputError: there are fewer than two examples.
    """
    values, people = check_ratings(scores, ratings)
    if len(values) < 2:
        raise InputError(f"a threshold of ties needs at least 2 examples, not {len(values)}.")
    return _remember("same", lambda: _tie_threshold(values, people), values, people)


def _tie_threshold(values: FloatArray, people: FloatArray) -> tuple[float, float]:
    size = len(values)
    every = size * (size - 1) // 2
    if every <= HELD_PAIRS:
        best = _sweep_pairs(
            values, people, *pair_counts.list_pairs(size, every, np.random.default_rng(0))
        )
    elif len(find_runs(np.sort(values))[0]) <= MOST_LEVELS:
        best = _sweep_levels(values, people)
    elif size <= MOST_EXAMPLES:
        best = _ThresholdSearch(values, people).run()
    else:
        first, second = pair_counts.sample_pairs(size, SAMPLED_PAIRS, np.random.default_rng(0))
        epsilon, _ = _sweep_pairs(values, people, first, second)
        same_fold = np.zeros(size, dtype=np.int64)
        right = pair_counts.count_right_pairs(values, people, same_fold, np.array([[epsilon]]))
        best = epsilon, float(right.sum() // 2)
    return best[0], best[1] / every


def _sweep_pairs(
    values: FloatArray, people: FloatArray, first: IntArray, second: IntArray
) -> Sweep:
    """Best threshold on these pairs of positions."""
    gap, order = values[first] - values[second], people[first] - people[second]
    concordant = gap * np.sign(order) > 0
    # A pair that becomes tied is right where people tie it, and no longer where it was in order.
    change = (order == 0).astype(np.int64) - concordant
    return _sweep(np.abs(gap), change, int(concordant.sum()))


def _sweep(distance: FloatArray, change: IntArray | FloatArray, start: float) -> Sweep:
    """Smallest best threshold, 0 or a distance, where `start` pairs are right with none tied."""
    sorting = np.argsort(distance)
    distance = distance[sorting]
    right = start + np.cumsum(change[sorting])
    last = np.flatnonzero(np.append(distance[1:] != distance[:-1], True))
    levels, right = distance[last], right[last]
    if levels[0] > 0:
        levels = np.concatenate([[0.0], levels])
        right = np.concatenate([[start], right])
    best = int(np.argmax(right))
    return float(levels[best]), float(right[best])


def _sweep_levels(values: FloatArray, people: FloatArray) -> Sweep:
    """Best threshold on all pairs of examples with few distinct scores, by pairs of scores."""
    levels, score = np.unique(values, return_inverse=True)
    rating, ratings = rank_levels(people)
    # Of the pairs of two scores, people tie and concordant: summed over blocks of ratings.
    tied, concordant = np.zeros((2, len(levels), len(levels)))
    below = np.zeros(len(levels))
    step = max(1, HELD_PAIRS // len(levels))
    for start in range(0, ratings, step):
        inside = (rating >= start) & (rating < start + step)
        width = min(step, ratings - start)
        cells = score[inside] * width + rating[inside] - start
        counts = np.bincount(cells, minlength=len(levels) * width).reshape(len(levels), width)
        table = counts.astype(np.float64)
        tied += table @ table.T
        lower = below[:, None] + np.cumsum(table, axis=1) - table
        concordant += table @ lower.T  # [u, v]: u is rated higher than v
        below += table.sum(axis=1)
    low, high = np.triu_indices(len(levels))
    change = tied[low, high] - concordant[high, low]
    same = low == high
    change[same] = (np.diagonal(tied) - np.bincount(score)) / 2
    start_right = float(concordant[high, low][~same].sum())
    return _sweep(levels[high] - levels[low], change, start_right)


@dataclass(slots=True, eq=False)
class _Trial:
    """Threshold that was tried: the pairs that it ties, of all, of people's, and concordant."""

    epsilon: float
    pairs: int
    tied: int
    concordant: int


class _ThresholdSearch:
    """Exact search for the best threshold on all pairs of examples."""

    def __init__(self, values: FloatArray, people: FloatArray):
        order = np.argsort(values)
        self._values = values[order]
        self._levels, self._ends = find_runs(self._values)
        ranks, levels = rank_levels(people)
        self._ranks = ranks[order]
        self._counts = RankCounts(self._ranks, levels)
        self._next = np.arange(1, len(values) + 1)
        after = np.repeat(self._ends[1:], np.diff(self._ends))  # the first point of a higher score
        until_next, until_after = self._counts.count(self._ranks, (self._next, after))
        self._equal = int(until_next[1].sum())
        self._higher = int((after - until_after[0] - until_after[1]).sum())
        self._rng = np.random.default_rng(0)

    def run(self) -> Sweep:
        """Best threshold, and the number of right pairs at it."""
        widest = self._try(float(self._values[-1] - self._values[0]))
        size = len(self._values)
        first, second = pair_counts.sample_pairs(size, 1 << 14, self._rng)
        sample = np.quantile(
            np.abs(self._values[first] - self._values[second]),
            np.linspace(0, 1, 66)[1:-1],
            method="lower",
        )
        tried = [self._try(epsilon) for epsilon in sorted({0.0, *sample.tolist()})]
        tried = [trial for trial in tried if trial.epsilon < widest.epsilon] + [widest]
        single: set[float] = set()  # thresholds without another one down to the last that was tried
        trials = len(tried)
        while True:
            best = self._best(tried, widest)
            gaps = [
                (low, high)
                for low, high in pairwise(tried)
                if high.epsilon not in single and self._is_open(low, high, widest, best)
            ]
            large = [pair for pair in gaps if pair[1].pairs - pair[0].pairs > HELD_PAIRS]
            left = sum(high.pairs - low.pairs for low, high in gaps)
            if not large and (left <= HELD_PAIRS or trials >= MOST_TRIALS):
                break
            for low, high in large if trials >= MOST_TRIALS else gaps:
                middle = self._middle(low, high)
                if middle is None:
                    single.add(high.epsilon)
                else:
                    tried.append(self._try(middle))
                    trials += 1
            tried.sort(key=lambda trial: trial.epsilon)
        for low, high in gaps:
            epsilon, right = self._go_through(low, high, widest)
            if (right, -epsilon) > (best[1], -best[0]):
                best = epsilon, right
        return best

    @staticmethod
    def _right(trial: _Trial, widest: _Trial) -> int:
        return widest.concordant + trial.tied - trial.concordant

    def _best(self, tried: list[_Trial], widest: _Trial) -> Sweep:
        best = max(tried, key=lambda trial: (self._right(trial, widest), -trial.epsilon))
        return best.epsilon, float(self._right(best, widest))

    @staticmethod
    def _is_open(low: _Trial, high: _Trial, widest: _Trial, best: Sweep) -> bool:
        """Whether a threshold between two may be better, or as good and smaller."""
        most = widest.concordant + high.tied - low.concordant
        return most > best[1] or (most == best[1] and high.epsilon <= best[0])

    def _stops(self, epsilon: float) -> IntArray:
        """(k,) for each point how many, in order, are not above it by more than ε."""
        return np.asarray(self._ends[tie_bounds(self._values, self._levels, epsilon)[1]])

    def _try(self, epsilon: float) -> _Trial:
        stops = self._stops(epsilon)
        ((lower, equal),) = self._counts.count(self._ranks, (stops,))
        tied = int(equal.sum()) - self._equal
        concordant = int((stops - lower - equal).sum()) - self._higher
        return _Trial(epsilon, int((stops - self._next).sum()), tied, concordant)

    def _middle(self, low: _Trial, high: _Trial) -> float | None:
        """Difference of two scores between two thresholds, about in the middle; None if none is."""
        start, stop = self._stops(low.epsilon), self._stops(high.epsilon)
        ends = np.cumsum(stop - start)
        drawn = self._rng.integers(0, ends[-1], 33)
        point = np.searchsorted(ends, drawn, side="right")
        other = stop[point] - (ends[point] - drawn)
        middle = float(np.median(self._values[other] - self._values[point]))
        if low.epsilon < middle < high.epsilon:
            return middle
        # Nearly all are at the upper end: the greatest difference below it, if there is one.
        before = self._stops(float(np.nextafter(high.epsilon, 0.0)))
        greatest = float((self._values[before - 1] - self._values).max())
        return greatest if greatest > low.epsilon else None

    def _go_through(self, low: _Trial, high: _Trial, widest: _Trial) -> Sweep:
        """Best threshold above one and up to another, by all pairs between."""
        start, stop = self._stops(low.epsilon), self._stops(high.epsilon)
        sizes = stop - start
        point = np.repeat(np.arange(len(sizes)), sizes)
        other = np.arange(len(point)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + start[point]
        change = (self._ranks[other] == self._ranks[point]).astype(np.int64)
        change -= self._ranks[other] > self._ranks[point]
        distance = self._values[other] - self._values[point]
        right = self._right(low, widest)
        epsilon, most = _sweep(distance, change, right)
        return (epsilon, most) if epsilon > 0 else (low.epsilon, float(right))


@dataclass(frozen=True, slots=True, eq=False)
class TieCalibration:
    """Thresholds of ties of pairs of examples.

    Attributes:
        fold: (k,) fold of each example.
        thresholds: (folds, folds) ε of pairs of two folds, chosen on examples of neither.
    """

    fold: IntArray
    thresholds: FloatArray

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and greatest threshold in use."""
        used = np.unique(self.fold)
        some = self.thresholds[np.ix_(used, used)]
        return float(some.min()), float(some.max())


def calibrate_ties(
    scores: ArrayLike,
    ratings: ArrayLike,
    clusters: IntArray | None = None,
    *,
    seed: int = 0,
) -> TieCalibration | None:
    """Choose the threshold of every pair on examples of other folds than its two; None if too few.

    Args:
        scores: (k,) score of each example.
        ratings: (k,) rating of each.
        clusters: (k,) codes ≥ 0; examples with one code are in one fold. None: all apart.
        seed: of the folds, and of the sample of pairs where there are too many.
    """
    values, people = check_ratings(scores, ratings)
    codes, units = cluster_codes(clusters, len(values))
    if units < FOLDS:
        return None

    def calibrate() -> TieCalibration | None:
        rng = np.random.default_rng(seed)
        division = rng.permutation(units) % FOLDS
        fold = np.asarray(division if codes is None else division[codes])
        choose = _calibrate_all if len(values) <= MOST_EXAMPLES else _calibrate_sample
        thresholds = choose(values, people, fold, rng)
        return None if thresholds is None else TieCalibration(fold, thresholds)

    known = (values, people) if codes is None else (values, people, codes)
    return _remember(f"apart {seed}", calibrate, *known)


def _calibrate_all(
    values: FloatArray, people: FloatArray, fold: IntArray, rng: np.random.Generator
) -> FloatArray | None:
    """Thresholds of every two folds, chosen on all pairs of the others, or a sample of them."""
    thresholds = np.zeros((FOLDS, FOLDS))
    for a in range(FOLDS):
        for b in range(a, FOLDS):
            others = np.flatnonzero((fold != a) & (fold != b))
            if len(others) < 2:
                return None
            first, second = pair_counts.list_pairs(len(others), MOST_PAIRS, rng)
            chosen, _ = _sweep_pairs(values, people, others[first], others[second])
            thresholds[a, b] = thresholds[b, a] = chosen
    return thresholds


def _calibrate_sample(
    values: FloatArray, people: FloatArray, fold: IntArray, rng: np.random.Generator
) -> FloatArray | None:
    """Thresholds of every two folds, chosen on the pairs of the others in one sample."""
    first, second = pair_counts.sample_pairs(len(values), SAMPLED_PAIRS, rng)
    gap, order = values[first] - values[second], people[first] - people[second]
    change = (order == 0).astype(np.int8) - (gap * np.sign(order) > 0).astype(np.int8)
    bit = (1 << fold).astype(np.uint8)
    folds = bit[first] | bit[second]
    distance = np.abs(gap)
    sorting = np.argsort(distance)
    distance, change, folds = distance[sorting], change[sorting], folds[sorting]
    last = np.flatnonzero(np.append(distance[1:] != distance[:-1], True))

    def choose(a: int, b: int) -> float:
        inside = folds & np.uint8((1 << a) | (1 << b)) == 0
        if not inside.any():
            return np.nan
        right = np.cumsum(change * inside, dtype=np.int32)
        right = right[last] if len(last) < len(right) else right
        best = int(np.argmax(right))
        # A distance of other pairs alone does not change the sum.
        return float(distance[last[best]]) if right[best] > 0 else 0.0

    cells = [(a, b) for a in range(FOLDS) for b in range(a, FOLDS)]
    chosen = run_tasks([partial(choose, *cell) for cell in cells], len(distance))
    thresholds = np.zeros((FOLDS, FOLDS))
    for (a, b), threshold in zip(cells, chosen, strict=True):
        thresholds[a, b] = thresholds[b, a] = threshold
    return None if np.isnan(chosen).any() else thresholds


_computing = RLock()
_known: OrderedDict[bytes, object] = OrderedDict()
"""The last results: the note of a shape asks for what its statistic does."""


def _remember(name: str, compute: Callable[[], T], *arrays: FloatArray | IntArray) -> T:
    """Result of a pure function of these arrays, from the last ones where it is known."""
    digest = hashlib.blake2b(name.encode(), digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    key = digest.digest()
    with _computing:
        if key not in _known:
            _known[key] = compute()
            if len(_known) > 8:
                _known.popitem(last=False)
        return cast(T, _known[key])
