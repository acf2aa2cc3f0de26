"""Agreement of scores with human ratings: rank correlations, and shares of pairs in the same order.

Every function compares pairs of examples. Of a resample, only how often each cluster of examples is
drawn matters: the pairs of two clusters are summed once, and a resample is a quadratic form.

Deutsch, Foster and Freitag, Ties Matter, 2023 (arXiv:2305.14324): pairwise accuracy with ties, and
the calibration of ties in the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrapose.errors import InputError
from contrapose.metrics.statistics.ranks import RankStatistic, UnitFormula
from contrapose.metrics.statistics.resampling import cluster_codes
from contrapose.metrics.statistics.statistic import divide
from contrapose.metrics.types import FloatArray, IntArray, require_finite

MOST_UNITS = 2_000
"""Units up to which a resample is an exact quadratic form; with more it is linear, which differs by
a share of about 1 / units."""

MOST_EXAMPLES = 20_000
"""Examples up to which all pairs are looked at."""

MOST_PAIRS = 1 << 20
"""Pairs that a threshold of ties is chosen on when it is cross-fitted; of more, a sample is."""

FOLDS = 5
"""Parts of the examples between which thresholds of ties are cross-fitted."""

CELLS = 1 << 22
"""Pairs of examples held at a time."""


def spearman_correlation(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's ρ: Pearson's correlation of the ranks, ties with their mean rank; NaN if constant.

    Args:
        x: (k,) one value an example.
        y: (k,) the other value.

    Raises:
        InputError: lengths differ, or a value is not finite.
    """
    return spearman_statistic(x, y).value()


def spearman_statistic(x: ArrayLike, y: ArrayLike) -> RankStatistic:
    """Spearman's ρ as a statistic; arguments are those of `spearman_correlation`."""
    first, second = (_Levels(values) for values in _check_ratings(x, y))
    examples = len(first.group)

    def bind(codes: IntArray, units: int) -> UnitFormula:
        def formula(counts: FloatArray) -> FloatArray:
            weights = counts[:, codes]
            a, b = first.centered_ranks(weights), second.centered_ranks(weights)
            spread = (weights * a * a).sum(axis=1) * (weights * b * b).sum(axis=1)
            return divide((weights * a * b).sum(axis=1), np.sqrt(spread))

        return formula

    return RankStatistic(examples, bind, lambda units: 8 * examples)


class _Levels:
    """Distinct values of a variable, in order, and the group of examples that has each."""

    def __init__(self, values: FloatArray):
        self.order = np.argsort(values, kind="stable")
        ordered = values[self.order]
        new = np.append(ordered[1:] != ordered[:-1], True)  # the last of each group
        new = np.roll(new, 1)[: len(values)]  # the first of each
        self.starts = np.flatnonzero(new)
        self.group: IntArray = np.empty(len(values), dtype=np.int64)
        self.group[self.order] = np.cumsum(new) - 1

    def sums(self, weights: FloatArray) -> FloatArray:
        """(r, g) weight of each group, from weights (r, k) of the examples."""
        if not len(self.starts):
            return np.zeros((len(weights), 0))
        return np.asarray(np.add.reduceat(weights[:, self.order], self.starts, axis=1))

    def centered_ranks(self, weights: FloatArray) -> FloatArray:
        """(r, k) mean rank of each example among the weighted examples, less the mean of all."""
        sums = self.sums(weights)
        middle = np.cumsum(sums, axis=1) - sums / 2
        return np.asarray((middle - sums.sum(axis=1, keepdims=True) / 2)[:, self.group])


def kendall_tau(x: ArrayLike, y: ArrayLike) -> float:
    """Kendall's τ-b, in O(k log k): (concordant − discordant) / √(untied in x · untied in y).

    NaN where either is constant.

    Args:
        x: (k,) one value an example.
        y: (k,) the other value.

    Raises:
        InputError: lengths differ, or a value is not finite.
    """
    return kendall_statistic(x, y).value()


def kendall_statistic(x: ArrayLike, y: ArrayLike) -> RankStatistic:
    """Kendall's τ-b as a statistic; arguments are those of `kendall_tau`."""
    first, second = _check_ratings(x, y)
    a, b = _Levels(first), _Levels(second)
    examples = len(first)
    same_order = _PairSums(
        examples,
        lambda rows: (
            np.sign(a.group[rows, None] - a.group) * np.sign(b.group[rows, None] - b.group)
        ),
        lambda: count_order(a.group, b.group),
    )

    def bind(codes: IntArray, units: int) -> UnitFormula:
        order = same_order.bind(codes, units)

        def formula(counts: FloatArray) -> FloatArray:
            weights = counts[:, codes]
            total = weights.sum(axis=1) ** 2
            untied = [total - (levels.sums(weights) ** 2).sum(axis=1) for levels in (a, b)]
            return divide(order(counts), np.sqrt(untied[0] * untied[1]))

        return formula

    return RankStatistic(examples, bind, lambda units: 4 * examples + same_order.work(units))


def count_order(x: ArrayLike, y: ArrayLike) -> IntArray:
    """(k,) for each example, how many others are in the same order in x and y, less the opposite.

    O(k log k): every count is the number of points below and to one side, by merging.
    """
    a, b = np.asarray(x), np.asarray(y)
    same = _count_below(a, b) + _count_below(-a, -b)
    return np.asarray(same - _count_below(a, -b) - _count_below(-a, b))


def _count_below(x: NDArray[np.integer], y: NDArray[np.integer]) -> IntArray:
    """(k,) for each point, how many have both a lower x and a lower y.

    Points are sorted by x, and by descending y where x ties, so that a point counts those before it
    with a lower y. Blocks of doubling size are merged: a point of the right half counts the left
    half's points below it. Sorting is stable and finds the sorted halves, so a level costs O(k).
    """
    size = len(x)
    order = np.lexsort((-y, x))
    rank = np.unique(y, return_inverse=True)[1][order].reshape(-1)
    position = np.arange(size)
    counts: IntArray = np.zeros(size, dtype=np.int64)
    line = position.copy()  # positions, sorted by rank within each block
    width = 1
    while width < size:
        block = line // (2 * width)
        # At equal ranks the right half goes first: it counts what is strictly below.
        left = (line // width) % 2 == 0
        key = (block * (size + 1) + rank[line]) * 2 + left
        line = line[np.argsort(key, kind="stable")]
        left = (line // width) % 2 == 0
        before = np.cumsum(left)
        # Left points of earlier blocks: each full block has `width` of them.
        earlier = (line // (2 * width)) * width
        counts[line[~left]] += (before - earlier)[~left]
        width *= 2
    result: IntArray = np.empty(size, dtype=np.int64)
    result[order] = counts
    return result


@dataclass(frozen=True, slots=True, eq=False)
class _PairSums:
    """Sum over ordered pairs of different examples of a cell, as a form of the units' counts.

    Attributes:
        examples: number of examples.
        cells: from rows of examples to their cells with all examples, (rows, k).
        row_sums: (k,) sum of each example's cells; None adds up the cells.
    """

    examples: int
    cells: Callable[[slice], NDArray[np.generic]]
    row_sums: Callable[[], IntArray] | None = None

    def bind(self, codes: IntArray, units: int) -> UnitFormula:
        """Σ over pairs of how often both are drawn times the cell, from counts (r, u)."""
        if 1 < units <= MOST_UNITS and self.examples <= MOST_EXAMPLES:
            matrix = self._matrix(codes, units)
            return lambda counts: np.asarray(((counts @ matrix) * counts).sum(axis=1))
        if self.row_sums is not None:
            rows = np.asarray(self.row_sums(), dtype=np.float64)
        else:
            rows = np.concatenate([block.sum(axis=1) for _, block in self._blocks()])
        sums = np.bincount(codes, weights=rows, minlength=units)
        total = sums.sum()
        return lambda counts: np.asarray(2 * (counts @ sums) - total)

    def work(self, units: int) -> int:
        """Cost of a resample, in draws of one unit."""
        return units + (units * units // 16 if units <= MOST_UNITS else 0)

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        step = max(1, CELLS // max(1, self.examples))
        for start in range(0, self.examples, step):
            rows = slice(start, min(start + step, self.examples))
            yield rows, self.cells(rows).astype(np.float64)

    def _matrix(self, codes: IntArray, units: int) -> FloatArray:
        """(u, u) sum of the cells of every two units."""
        order = np.argsort(codes, kind="stable")
        present, starts = np.unique(codes[order], return_index=True)
        matrix = np.zeros((units, units))
        for rows, block in self._blocks():
            columns = np.add.reduceat(block[:, order], starts, axis=1)
            within = np.argsort(codes[rows], kind="stable")
            some, firsts = np.unique(codes[rows][within], return_index=True)
            matrix[np.ix_(some, present)] += np.add.reduceat(columns[within], firsts, axis=0)
        return matrix


def tie_threshold(scores: ArrayLike, ratings: ArrayLike) -> tuple[float, float]:
    """Threshold ε that calibrates ties, and the pairwise accuracy at it (Deutsch et al., 2023).

    Scores that differ by no more than ε are tied. A pair is right where scores and ratings are in
    the same strict order, or both tied. The smallest of the best thresholds is taken: 0, or the
    difference of two scores. It is chosen on the same pairs, so the accuracy is flattered a little.

    Args:
        scores: (k,) score of each example.
        ratings: (k,) rating of each.

    Raises:
        InputError: there are fewer than two examples, or too many for all pairs.
    """
    values, people = _check_ratings(scores, ratings)
    if not 2 <= len(values) <= MOST_EXAMPLES:
        raise InputError(
            f"a threshold of ties needs 2 to {MOST_EXAMPLES:,} examples, not {len(values):,}."
        )
    first, second = np.triu_indices(len(values), 1)
    return _choose_threshold(values, people, first, second)


def _choose_threshold(
    values: FloatArray, people: FloatArray, first: IntArray, second: IntArray
) -> tuple[float, float]:
    """Threshold and accuracy on these pairs of positions."""
    gap, order = values[first] - values[second], people[first] - people[second]
    concordant = gap * np.sign(order) > 0
    distance = np.abs(gap)
    sorting = np.argsort(distance, kind="stable")
    distance = distance[sorting]
    # A pair that becomes tied is right where people tie it, and no longer where it was in order.
    change = (order == 0).astype(np.int64) - concordant
    right = int(concordant.sum()) + np.cumsum(change[sorting])
    last = np.flatnonzero(np.append(distance[1:] != distance[:-1], True))
    levels, right = distance[last], right[last]
    if levels[0] > 0:
        levels = np.concatenate([[0.0], levels])
        right = np.concatenate([[int(concordant.sum())], right])
    best = int(np.argmax(right))
    return float(levels[best]), float(right[best] / len(distance))


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
    values, people = _check_ratings(scores, ratings)
    codes, units = cluster_codes(clusters, len(values))
    if units < FOLDS:
        return None
    rng = np.random.default_rng(seed)
    division = rng.permutation(units) % FOLDS
    fold = np.asarray(division if codes is None else division[codes])
    thresholds = np.zeros((FOLDS, FOLDS))
    for a in range(FOLDS):
        for b in range(a, FOLDS):
            others = np.flatnonzero((fold != a) & (fold != b))
            if len(others) < 2:
                return None
            pairs = _list_pairs(len(others), rng)
            chosen, _ = _choose_threshold(values, people, others[pairs[0]], others[pairs[1]])
            thresholds[a, b] = thresholds[b, a] = chosen
    return TieCalibration(fold, thresholds)


def _list_pairs(size: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Positions of all pairs, or of a sample of them."""
    if size * (size - 1) // 2 <= MOST_PAIRS:
        first, second = np.triu_indices(size, 1)
        return first, second
    first = rng.integers(0, size, MOST_PAIRS)
    return first, (first + rng.integers(1, size, MOST_PAIRS)) % size


def pairwise_statistic(
    scores: ArrayLike, ratings: ArrayLike, calibration: TieCalibration | float
) -> RankStatistic:
    """Pairwise accuracy: the share of pairs of examples in the same order in scores and ratings.

    Chance is the best that scores without information get: always tied, or never.

    Args:
        scores: (k,) score of each example.
        ratings: (k,) rating of each.
        calibration: thresholds below which scores are tied; a number is that of all pairs.

    Raises:
        InputError: there are too many examples.
    """
    values, people = _check_ratings(scores, ratings)
    examples = len(values)
    if examples > MOST_EXAMPLES:
        raise InputError(f"pairs of more than {MOST_EXAMPLES:,} examples are not compared.")
    if isinstance(calibration, TieCalibration):
        fold, thresholds = calibration.fold, calibration.thresholds
    else:
        fold, thresholds = np.zeros(examples, dtype=np.int64), np.array([[calibration]])

    def right(rows: slice) -> NDArray[np.generic]:
        gap = values[rows, None] - values
        tied = np.abs(gap) <= thresholds[fold[rows, None], fold]
        cells = np.where(tied, 0.0, np.sign(gap)) == np.sign(people[rows, None] - people)
        cells[np.arange(len(cells)), np.arange(rows.start, rows.stop)] = False
        return np.asarray(cells)

    sums = _PairSums(examples, right)

    def bind(codes: IntArray, units: int) -> UnitFormula:
        form = sums.bind(codes, units)
        sizes = np.bincount(codes, minlength=units).astype(np.float64)

        def formula(counts: FloatArray) -> FloatArray:
            # Copies of one example are no pair. The linear form counts pairs linearly, too.
            if 1 < units <= MOST_UNITS:
                pairs = (counts @ sizes) ** 2 - (counts * counts) @ sizes
            else:
                pairs = (2 * (counts @ sizes) - examples) * (examples - 1)
            return divide(form(counts), pairs)

        return formula

    _, sizes = np.unique(people, return_counts=True)
    every = examples * (examples - 1)
    tied = float((sizes * (sizes - 1)).sum() / every) if every else 0.0
    return RankStatistic(examples, bind, sums.work, True, chance=max(tied, (1 - tied) / 2))


def _check_ratings(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    first, second = require_finite(x, "scores"), require_finite(y, "ratings")
    if first.ndim != 1 or first.shape != second.shape:
        raise InputError(
            f"scores of shape {first.shape} and ratings of shape {second.shape}; one of each for "
            "every example is needed."
        )
    return first.astype(np.float64), second.astype(np.float64)
