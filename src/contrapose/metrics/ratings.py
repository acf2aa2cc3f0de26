"""Agreement of scores with human ratings: rank correlations, and shares of pairs in the same order.

Every function compares pairs of examples. Of a resample, only how often each cluster of examples is
drawn matters: the pairs of two clusters are summed once, and a resample is a quadratic form. Of
very many clusters it is linear: the projection on single examples (see `statistics.ranks`).

Deutsch, Foster and Freitag, Ties Matter, 2023 (arXiv:2305.14324): pairwise accuracy with ties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrapose.metrics.pair_counts import check_ratings, count_rank_order, count_right_pairs
from contrapose.metrics.statistics.ranks import RankStatistic, UnitFormula
from contrapose.metrics.statistics.statistic import Statistic, divide
from contrapose.metrics.tie_thresholds import MOST_EXAMPLES, TieCalibration
from contrapose.metrics.types import FloatArray, IntArray

MOST_UNITS = 2_000
"""Units up to which a resample is an exact quadratic form, of up to `MOST_EXAMPLES` examples; with
more it is linear, which differs by a share of about 1 / units."""

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
    first, second = (_Levels(values) for values in check_ratings(x, y))
    examples = len(first.group)

    def bind(codes: IntArray, units: int) -> UnitFormula:
        def formula(counts: FloatArray) -> FloatArray:
            weights = counts[:, codes]
            a, b = first.centered_ranks(weights), second.centered_ranks(weights)
            spread = (weights * a * a).sum(axis=1) * (weights * b * b).sum(axis=1)
            return divide((weights * a * b).sum(axis=1), np.sqrt(spread))

        return formula

    def linear() -> Statistic:
        a, b = (levels.centered_ranks(np.ones((1, examples)))[0] for levels in (first, second))
        above_a, above_b = first.sums_above(a, b), second.sums_above(a, b)
        # A sum of products of ranks changes with the weight of an example by its own product, and
        # by how it moves the ranks of those above it.
        slopes = [
            a * b + above_a[1] + above_b[0],
            a * a + 2 * above_a[0],
            b * b + 2 * above_b[1],
        ]
        sums = [float(a @ b), float(a @ a), float(b @ b)]

        def formula(totals: FloatArray) -> FloatArray:
            means = divide(totals[:, :3], totals[:, 3:])
            # Of degree 3 in the weights: the slopes' mean is three times the sum's share.
            product, *squares = (means - 2 * np.array(sums) / examples).T
            return divide(product, np.sqrt(np.maximum(squares[0] * squares[1], 0.0)))

        return Statistic(np.stack([*slopes, np.ones(examples)]).T, formula)

    return RankStatistic(examples, bind, lambda units: 8 * examples, linear=linear)


class _Levels:
    """Distinct values of a variable, in order, and the group of examples that has each."""

    def __init__(self, values: FloatArray):
        self.order = np.argsort(values)
        ordered = values[self.order]
        new = np.append(ordered[1:] != ordered[:-1], True)  # the last of each group
        new = np.roll(new, 1)[: len(values)]  # the first of each
        self.starts = np.flatnonzero(new)
        self.group: IntArray = np.empty(len(values), dtype=np.int64)
        self.group[self.order] = np.cumsum(new) - 1

    def sums(self, weights: FloatArray) -> FloatArray:
        """(r, g) weight of each group, from weights (r, k) of the examples."""
        if len(self.starts) == len(self.order):  # all values differ
            return weights[:, self.order]
        return np.asarray(np.add.reduceat(weights[:, self.order], self.starts, axis=1))

    def counts(self, weights: FloatArray) -> FloatArray:
        """(r, g) weight of each group, from weights (r, k) that are whole numbers."""
        if len(self.starts) == len(self.order):
            return self.sums(weights)
        return np.stack([np.bincount(self.group, row, len(self.starts)) for row in weights])

    def centered_ranks(self, weights: FloatArray) -> FloatArray:
        """(r, k) mean rank of each example among those drawn so often, less the mean of all."""
        sums = self.counts(weights)
        middle = np.cumsum(sums, axis=1) - sums / 2
        return np.asarray((middle - sums.sum(axis=1, keepdims=True) / 2)[:, self.group])

    def sums_above(self, *columns: FloatArray) -> list[FloatArray]:
        """(k,) for each column its sum over examples of higher value, and half of equal value."""
        sums = self.sums(np.stack(columns))
        above = sums.sum(axis=1, keepdims=True) - np.cumsum(sums, axis=1) + sums / 2
        return list(above[:, self.group])

    def others(self) -> FloatArray:
        """(k,) number of examples of another value."""
        sizes = np.bincount(self.group, minlength=len(self.starts))
        return np.asarray(len(self.group) - sizes[self.group], dtype=np.float64)


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
    first, second = check_ratings(x, y)
    a, b = _Levels(first), _Levels(second)
    examples = len(first)
    same_order = _PairSums(
        examples,
        lambda rows: (
            np.sign(a.group[rows, None] - a.group) * np.sign(b.group[rows, None] - b.group)
        ),
        cache(lambda: count_rank_order(a.group, len(a.starts), b.group, len(b.starts))),
    )

    def bind(codes: IntArray, units: int) -> UnitFormula:
        order = same_order.bind(codes, units)

        def formula(counts: FloatArray) -> FloatArray:
            weights = counts[:, codes]
            total = weights.sum(axis=1) ** 2
            untied = [total - (levels.counts(weights) ** 2).sum(axis=1) for levels in (a, b)]
            return divide(order(counts), np.sqrt(untied[0] * untied[1]))

        return formula

    def linear() -> Statistic:
        columns = [same_order.sums_of_rows(), a.others(), b.others()]
        sums = np.array([column.sum() for column in columns])

        def formula(totals: FloatArray) -> FloatArray:
            # Of degree 2 in the weights: the slopes' mean is twice the sum's share.
            order, *untied = (2 * divide(totals[:, :3], totals[:, 3:]) - sums / examples).T
            return divide(order, np.sqrt(np.maximum(untied[0] * untied[1], 0.0)))

        return Statistic(np.stack([*columns, np.ones(examples)]).T, formula)

    return RankStatistic(
        examples,
        bind,
        lambda units: 4 * examples + same_order.work(units),
        linear=linear,
        projected=lambda units: not same_order.is_quadratic(units),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _PairSums:
    """Sum over ordered pairs of different examples of a cell, as a form of the units' counts.

    Attributes:
        examples: number of examples.
        cells: from rows of examples to their cells with all examples, (rows, k).
        row_sums: (k,) sum of each example's cells.
    """

    examples: int
    cells: Callable[[slice], NDArray[np.generic]]
    row_sums: Callable[[], IntArray]

    def bind(self, codes: IntArray, units: int) -> UnitFormula:
        """Σ over pairs of how often both are drawn times the cell, from counts (r, u)."""
        if self.is_quadratic(units):
            matrix = self._matrix(codes, units)
            return lambda counts: np.asarray(((counts @ matrix) * counts).sum(axis=1))
        sums = np.bincount(codes, weights=self.sums_of_rows(), minlength=units)
        total = sums.sum()
        return lambda counts: np.asarray(2 * (counts @ sums) - total)

    def is_quadratic(self, units: int) -> bool:
        """Whether a resample of so many units is an exact quadratic form."""
        return 1 < units <= MOST_UNITS and self.examples <= MOST_EXAMPLES

    def sums_of_rows(self) -> FloatArray:
        """(k,) sum of each example's cells."""
        return np.asarray(self.row_sums(), dtype=np.float64)

    def work(self, units: int) -> int:
        """Cost of a resample, in draws of one unit."""
        return units + (units * units // 16 if self.is_quadratic(units) else 0)

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


def pairwise_statistic(
    scores: ArrayLike, ratings: ArrayLike, calibration: TieCalibration | float
) -> RankStatistic:
    """Pairwise accuracy: the share of pairs of examples in the same order in scores and ratings.

    Chance is the best that scores without information get: always tied, or never.

    Args:
        scores: (k,) score of each example.
        ratings: (k,) rating of each.
        calibration: thresholds below which scores are tied; a number is that of all pairs.
    """
    values, people = check_ratings(scores, ratings)
    examples = len(values)
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

    sums = _PairSums(
        examples, right, cache(lambda: count_right_pairs(values, people, fold, thresholds))
    )

    def bind(codes: IntArray, units: int) -> UnitFormula:
        form = sums.bind(codes, units)
        sizes = np.bincount(codes, minlength=units).astype(np.float64)

        def formula(counts: FloatArray) -> FloatArray:
            # Copies of one example are no pair. The linear form counts pairs linearly, too.
            if sums.is_quadratic(units):
                pairs = (counts @ sizes) ** 2 - (counts * counts) @ sizes
            else:
                pairs = (2 * (counts @ sizes) - examples) * (examples - 1)
            return divide(form(counts), pairs)

        return formula

    _, sizes = np.unique(people, return_counts=True)
    every = examples * (examples - 1)
    tied = float((sizes * (sizes - 1)).sum() / every) if every else 0.0

    def linear() -> Statistic:
        rows = sums.sums_of_rows()
        total = rows.sum()

        def formula(totals: FloatArray) -> FloatArray:
            pairs = (2 * totals[:, 1] - examples) * (examples - 1)
            return divide(2 * totals[:, 0] - total, pairs)

        return Statistic(np.stack([rows, np.ones(examples)]).T, formula)

    return RankStatistic(
        examples,
        bind,
        sums.work,
        True,
        chance=max(tied, (1 - tied) / 2),
        linear=linear,
        projected=lambda units: not sums.is_quadratic(units),
    )
