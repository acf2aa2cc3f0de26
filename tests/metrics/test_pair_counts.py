"""Counts of pairs against plain loops over all pairs, with ties everywhere."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.metrics import FloatArray
from contrapose.metrics.pair_counts import (
    RankCounts,
    count_order,
    count_right_pairs,
    rank_levels,
    tie_bounds,
)

NUMBERS = st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.4, 5.0, -1e9, 1e-300, 1e300])
POINTS = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 2)), min_size=1, max_size=40)


@given(
    st.integers(0, 20).flatmap(lambda most: st.lists(st.integers(0, most), max_size=50)),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=50)
def test_lower_and_equal_ranks_are_counted(ranks: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    line = np.array(ranks, dtype=np.int64)
    levels = int(line.max(initial=-1)) + 1
    counts = RankCounts(line, levels)
    queries = rng.integers(0, max(1, levels), 30)
    stops = rng.integers(0, len(line) + 1, (2, 30))
    for stop, (lower, equal) in zip(stops, counts.count(queries, list(stops)), strict=True):
        assert lower.tolist() == [
            int((line[:s] < r).sum()) for s, r in zip(stop, queries, strict=True)
        ]
        assert equal.tolist() == [
            int((line[:s] == r).sum()) for s, r in zip(stop, queries, strict=True)
        ]


@given(POINTS)
@settings(deadline=None, max_examples=50)
def test_the_order_of_every_pair_is_counted(rows: list[tuple[float, float, int]]) -> None:
    x, y, _ = (np.array(column) for column in zip(*rows, strict=True))
    expected = (np.sign(x[:, None] - x) * np.sign(y[:, None] - y)).sum(axis=1)
    assert count_order(x, y).tolist() == expected.tolist()


def right_pairs(
    scores: FloatArray, ratings: FloatArray, fold: np.ndarray, thresholds: FloatArray
) -> list[int]:
    gap = scores[:, None] - scores
    tied = np.abs(gap) <= thresholds[fold[:, None], fold]
    right = np.where(tied, 0.0, np.sign(gap)) == np.sign(ratings[:, None] - ratings)
    np.fill_diagonal(right, False)
    return [int(count) for count in right.sum(axis=1)]


@given(POINTS, st.lists(NUMBERS.map(abs), min_size=6, max_size=6))
@settings(deadline=None, max_examples=80)
def test_right_pairs_are_those_of_all_pairs(
    rows: list[tuple[float, float, int]], thresholds: list[float]
) -> None:
    """Also where the sum of score and threshold is rounded otherwise than their difference."""
    scores, ratings, fold = (np.array(column) for column in zip(*rows, strict=True))
    table = np.zeros((3, 3))
    table[np.triu_indices(3)] = thresholds
    table = np.maximum(table, table.T)
    expected = right_pairs(scores, ratings, fold, table)
    assert count_right_pairs(scores, ratings, fold, table).tolist() == expected


def test_ends_of_ties_are_those_of_rounded_differences() -> None:
    rng = np.random.default_rng(0)
    levels = np.unique(np.round(rng.normal(size=200), 2))
    for threshold in (0.0, 0.1, 0.3, 0.7, 1e9):
        start, stop = tie_bounds(levels, levels, threshold)
        tied = np.abs(levels[:, None] - levels) <= threshold
        assert start.tolist() == tied.argmax(axis=1).tolist()
        assert (stop - start).tolist() == tied.sum(axis=1).tolist()


def test_no_points() -> None:
    assert count_order([], []).tolist() == []
    assert rank_levels([])[1] == 0
