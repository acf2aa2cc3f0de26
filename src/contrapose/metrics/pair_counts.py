"""Counts of pairs of examples by the order of two variables, in O(k log k) instead of O(k²).

Points are put in the order of one variable, and the ranks of the other are held in a wavelet matrix
(Claude, Navarro and Ordóñez, The wavelet matrix, 2015): one level for every bit of a rank. How many
of the first p points have a rank below r is then read off in as many steps as ranks have bits, for
all queries at once. Up to eight ranks, as ratings have, a table of all counts is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrapose.errors import InputError
from contrapose.metrics.types import FloatArray, IntArray, require_finite

TABLE_LEVELS = 8
"""Ranks up to which all counts are held in a table."""

FEW_LEVELS = 4_096
"""Distinct values up to which ranks are found by a search among them."""

Counts32 = NDArray[np.int32]


class RankCounts:
    """Points in some order, of which those of lower and of equal rank are counted.

    Args:
        ranks: (k,) ranks ≥ 0 of the points in their order.
        levels: number of ranks.
    """

    def __init__(self, ranks: IntArray, levels: int):
        self.size = len(ranks)
        self._table: Counts32 | None = None
        if 0 < levels <= TABLE_LEVELS:
            self._table = np.zeros((levels + 1, self.size + 1), dtype=np.int32)
            for rank in range(levels):
                np.cumsum(ranks <= rank, out=self._table[rank + 1, 1:])
            return
        self._bits = max(1, int(levels - 1).bit_length()) if levels else 1
        self._zeros: list[Counts32] = []
        self._split: list[int] = []
        line = np.asarray(ranks)
        for bit in reversed(range(self._bits)):
            one = (line >> bit) & 1 == 1
            zeros = np.zeros(self.size + 1, dtype=np.int32)
            np.cumsum(~one, out=zeros[1:])
            self._zeros.append(zeros)
            self._split.append(int(zeros[-1]))
            line = np.concatenate([line[~one], line[one]])

    def count(self, ranks: IntArray, stops: Sequence[IntArray]) -> list[tuple[IntArray, IntArray]]:
        """Count, among the first points up to each stop, those of lower and of equal rank.

        Args:
            ranks: (q,) rank that each query compares with.
            stops: arrays (q,) of how many points are looked at.

        Returns:
            For each array of stops two counts (q,).
        """
        if self._table is not None:
            below, until = self._table[:-1].ravel(), self._table[1:].ravel()
            cells = [ranks * (self.size + 1) + stop for stop in stops]
            lower = [below[cell] for cell in cells]
            return [
                (one.astype(np.int64), (until[cell] - one).astype(np.int64))
                for one, cell in zip(lower, cells, strict=True)
            ]
        rank = np.asarray(ranks, dtype=np.int32)
        first: Counts32 = np.zeros(len(rank), dtype=np.int32)
        lasts = [np.asarray(stop, dtype=np.int32) for stop in stops]
        lower = [np.zeros(len(rank), dtype=np.int32) for _ in stops]
        bits = range(self._bits - 1, -1, -1)
        for bit, zeros, split in zip(bits, self._zeros, self._split, strict=True):
            one = rank & (1 << bit) != 0
            before = zeros[first]
            for i, last in enumerate(lasts):
                zero = zeros[last]
                lower[i] += (zero - before) * one
                lasts[i] = np.where(one, last - zero + split, zero)
            first = np.where(one, first - before + split, before)
        return [
            (below.astype(np.int64), (last - first).astype(np.int64))
            for below, last in zip(lower, lasts, strict=True)
        ]


def rank_levels(values: ArrayLike) -> tuple[IntArray, int]:
    """(k,) rank of each value among the distinct ones, from 0, and how many of these there are."""
    array = np.asarray(values)
    levels, _ = find_runs(np.sort(array))  # faster than hashing, which `np.unique` may do
    if len(levels) <= FEW_LEVELS:
        return np.searchsorted(levels, array), len(levels)
    return np.unique(array, return_inverse=True)[1].reshape(-1), len(levels)


def find_runs(ordered: FloatArray) -> tuple[FloatArray, IntArray]:
    """Distinct values (d,) of ordered ones, and where each begins (d + 1,), with the end of all."""
    new = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    starts = np.flatnonzero(new)
    return ordered[starts], np.append(starts, len(ordered))


def count_order(x: ArrayLike, y: ArrayLike) -> IntArray:
    """(k,) for each example, how many others are in the same order in x and y, less the opposite.

    Args:
        x: (k,) one value an example.
        y: (k,) the other value.
    """
    return count_rank_order(*rank_levels(x), *rank_levels(y))


def count_rank_order(a: IntArray, of_a: int, b: IntArray, of_b: int) -> IntArray:
    """Counts of `count_order` from ranks (k,) of both values, and how many ranks there are."""
    if of_a < of_b:
        a, b, of_a, of_b = b, a, of_b, of_a
    size = len(a)
    order = np.argsort(a)
    counts = RankCounts(b[order], of_b)
    ends = np.cumsum(np.bincount(a, minlength=of_a))
    totals = np.bincount(b, minlength=of_b)
    ranks, a = b[order], a[order]
    below = (np.cumsum(totals) - totals)[ranks]
    above = size - below - totals[ranks]
    stop = ends[a]
    start = np.concatenate([[0], ends[:-1]])[a]
    (lower_before, equal_before), (lower_until, equal_until) = counts.count(ranks, (start, stop))
    higher_before = start - lower_before - equal_before
    higher_after = above - (stop - lower_until - equal_until)
    result: IntArray = np.empty(size, dtype=np.int64)
    result[order] = lower_before + higher_after - higher_before - (below - lower_until)
    return result


@dataclass(frozen=True, slots=True, eq=False)
class FoldPoints:
    """Examples of one fold in the order of their scores.

    Attributes:
        positions: (m,) the examples.
        levels: (d,) their distinct scores, in order.
        ends: (d + 1,) how many of the examples have a score below each level, and at last all.
        counts: counts of their rating ranks.
        totals: (ranks,) how many of them have each rating rank.
    """

    positions: IntArray
    levels: FloatArray
    ends: IntArray
    counts: RankCounts
    totals: IntArray


def fold_points(values: FloatArray, ranks: IntArray, levels: int, members: IntArray) -> FoldPoints:
    """Points of the members among all examples, of these scores and rating ranks."""
    positions = members[np.argsort(values[members])]
    distinct, ends = find_runs(values[positions])
    counts = RankCounts(ranks[positions], levels)
    totals = np.bincount(ranks[positions], minlength=levels)
    return FoldPoints(positions, distinct, ends, counts, totals)


def tie_bounds(
    scores: FloatArray, levels: FloatArray, threshold: float
) -> tuple[IntArray, IntArray]:
    """Levels [start, stop) that are tied with each score: |score − level| ≤ threshold.

    The difference is rounded as the computer's is. It is monotone in the level, so that a search
    for the rounded end is off by few levels, which are then gone through.

    Args:
        scores: (q,) scores, sorted.
        levels: (d,) distinct levels, sorted.
        threshold: ε ≥ 0.
    """
    with np.errstate(over="ignore"):
        start = np.searchsorted(levels, scores - threshold, side="left")
        stop = np.searchsorted(levels, scores + threshold, side="right")
        size = len(levels)
        while True:
            move = (start > 0) & (scores - levels[np.maximum(start - 1, 0)] <= threshold)
            if not move.any():
                break
            start = start - move
        while True:
            move = (start < size) & (scores - levels[np.minimum(start, size - 1)] > threshold)
            if not move.any():
                break
            start = start + move
        while True:
            move = (stop < size) & (levels[np.minimum(stop, size - 1)] - scores <= threshold)
            if not move.any():
                break
            stop = stop + move
        while True:
            move = (stop > 0) & (levels[np.maximum(stop - 1, 0)] - scores > threshold)
            if not move.any():
                break
            stop = stop - move
    return start, stop


def count_right_pairs(
    scores: FloatArray, ratings: FloatArray, fold: IntArray, thresholds: FloatArray
) -> IntArray:
    """(k,) for each example, with how many others score and rating agree on the order or a tie.

    Args:
        scores: (k,) score of each example.
        ratings: (k,) rating of each.
        fold: (k,) fold of each example.
        thresholds: (folds, folds) ε of pairs of two folds; scores that differ by no more are tied.
    """
    ranks, levels = rank_levels(ratings)
    if (thresholds == thresholds[0, 0]).all():
        fold, thresholds = np.zeros_like(fold), thresholds[:1, :1]
    folds: Sequence[int] = np.unique(fold).tolist()
    points = {
        code: fold_points(scores, ranks, levels, np.flatnonzero(fold == code)) for code in folds
    }
    right: IntArray = np.zeros(len(scores), dtype=np.int64)
    for one, ours in points.items():
        values, rank = scores[ours.positions], ranks[ours.positions]
        for other, theirs in points.items():
            bounds = tie_bounds(values, theirs.levels, float(thresholds[one, other]))
            start, stop = (theirs.ends[bound] for bound in bounds)
            before, until = theirs.counts.count(rank, (start, stop))
            below = (np.cumsum(theirs.totals) - theirs.totals)[rank]
            above = theirs.counts.size - below - theirs.totals[rank]
            higher = above - (stop - until[0] - until[1])
            right[ours.positions] += before[0] + until[1] - before[1] + higher
    return right - 1  # an example is tied with itself


def list_pairs(size: int, most: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Positions of all pairs, or of a sample of so many."""
    if size * (size - 1) // 2 > most:
        return sample_pairs(size, most, rng)
    first, second = np.triu_indices(size, 1)
    return first, second


def sample_pairs(size: int, pairs: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Positions of a random sample of pairs, with replacement."""
    first = rng.integers(0, size, pairs)
    return first, (first + rng.integers(1, size, pairs)) % size


def check_ratings(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Scores and ratings as numbers.

    Raises:
        InputError: there is not one of each for every example, or one is not finite.
    """
    first, second = require_finite(x, "scores"), require_finite(y, "ratings")
    if first.ndim != 1 or first.shape != second.shape:
        raise InputError(
            f"scores of shape {first.shape} and ratings of shape {second.shape}; one of each for "
            "every example is needed."
        )
    return first.astype(np.float64), second.astype(np.float64)
