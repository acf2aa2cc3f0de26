"""Composed retrieval metrics against a slow loop that shares no code with them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics.composed import (
    average_precision_at,
    average_precision_chances,
    rank_images,
    recall_at,
    recall_chances,
)


def slow_order(scores: list[float], right: set[int], out: int, *, lucky: bool) -> list[int]:
    """Images best first; among equal scores the wrong (or, if lucky, the right) ones first."""
    images = [i for i in range(len(scores)) if i != out]
    return sorted(images, key=lambda i: (-scores[i], (i in right) != lucky, i))


def slow_average_precision(order: list[int], right: set[int], k: int) -> float:
    found_right, total = 0, 0.0
    for rank, image in enumerate(order[:k], start=1):
        if image in right:
            found_right += 1
            total += found_right / rank
    return total / min(len(right), k)


@given(st.integers(0, 10_000))
def test_ranked_lists_are_those_of_a_slow_sort(seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries, images = int(rng.integers(1, 4)), int(rng.integers(2, 12))
    depth = int(rng.integers(1, 14))
    scores = rng.integers(0, 4, size=(queries, images)).astype(np.float64)  # many ties
    out = [int(rng.integers(-1, images)) for _ in range(queries)]
    right = [
        sorted({int(i) for i in rng.integers(0, images, size=rng.integers(1, 4))} - {o})
        for o in out
    ]
    columns = np.arange(images) + 100
    lists = rank_images(
        scores,
        columns,
        [[i + 100 for i in some] for some in right],
        [o + 100 if o >= 0 else -1 for o in out],
        depth=depth,
    )
    for q in range(queries):
        truth = set(right[q])
        order = slow_order(scores[q].tolist(), truth, out[q], lucky=False)
        lucky = slow_order(scores[q].tolist(), truth, out[q], lucky=True)
        listed = [int(i) - 100 for i in lists.positions[q] if i >= 0]
        assert listed == order[:depth]
        assert [listed[i] in truth for i in range(len(listed))] == list(
            lists.hits[q, : len(listed)]
        )
        assert [i in truth for i in lucky[:depth]] == list(lists.lucky_hits[q, : len(listed)])
        if truth:
            first = next(rank for rank, i in enumerate(order, 1) if i in truth)
            assert lists.first[q] == first
            for k in (1, 2, depth):
                if k > depth:
                    continue
                assert recall_at(lists.hits, k)[q] == any(i in truth for i in order[:k])
                counts = np.array([max(1, len(some)) for some in right])
                assert average_precision_at(lists.hits, counts, k)[q] == pytest.approx(
                    slow_average_precision(order, truth, k)
                )


def test_a_tie_is_never_a_win() -> None:
    lists = rank_images([[1.0, 1.0, 0.0]], [0, 1, 2], [[0]], depth=2)
    assert lists.positions.tolist() == [[1, 0]]
    assert recall_at(lists.hits, 1).tolist() == [0.0]
    assert recall_at(lists.lucky_hits, 1).tolist() == [1.0]
    assert lists.first.tolist() == [2]


@pytest.mark.parametrize(("images", "right", "k"), [(5, 1, 2), (5, 2, 3), (6, 3, 6), (4, 2, 9)])
def test_chance_is_the_mean_over_all_orders(images: int, right: int, k: int) -> None:
    truth = set(range(right))
    orders = [list(order) for order in itertools.permutations(range(images))]
    recall = np.mean([any(i in truth for i in order[:k]) for order in orders])
    precision = np.mean([slow_average_precision(order, truth, k) for order in orders])
    assert recall_chances([images], [right], k)[0] == pytest.approx(recall)
    assert average_precision_chances([images], [right], k)[0] == pytest.approx(precision)


def test_scores_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="do not fit"):
        rank_images(np.zeros((2, 3)), [0, 1], [[0], [1]])
    with pytest.raises(InputError, match="NaN"):
        rank_images([[np.nan, 1.0]], [0, 1], [[0]])
