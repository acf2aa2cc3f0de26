"""AUROC against all pairs, and its interval against resampling by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from contrapose.errors import InputError
from contrapose.metrics import auroc, auroc_interval


def by_pairs(scores: np.ndarray) -> float:
    captions, foils = scores[:, 0], scores[:, 1]
    won = captions[:, None] > foils[None]
    tied = captions[:, None] == foils[None]
    return float((won + tied / 2).mean())


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 2), min_size=1, max_size=30))
def test_against_all_pairs(rows: list[tuple[int, int]]) -> None:
    scores = np.array(rows, dtype=float)
    assert auroc(scores) == pytest.approx(by_pairs(scores))
    mann_whitney = stats.mannwhitneyu(scores[:, 0], scores[:, 1]).statistic / len(rows) ** 2
    assert auroc(scores) == pytest.approx(mann_whitney)


@given(st.integers(0, 2**32 - 1))
def test_what_it_does_not_depend_on(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(30, 2))
    assert auroc(np.exp(scores)) == pytest.approx(auroc(scores))
    assert auroc(scores[:, ::-1]) == pytest.approx(1 - auroc(scores))


@pytest.mark.parametrize("size", [1, 4])
def test_interval_by_hand(size: int) -> None:
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal([0.5, 0.0], 1.0, size=(120, 2)), 1)
    clusters = np.arange(120) // size
    by_hand = np.empty(3000)
    for r in range(3000):
        drawn = rng.integers(0, 120 // size, size=120 // size)
        index = (drawn[:, None] * size + np.arange(size)).ravel()
        by_hand[r] = by_pairs(scores[index])
    low, high = auroc_interval(scores, clusters=clusters)
    expected = np.quantile(by_hand, [0.025, 0.975])
    tolerance = 0.08 * (expected[1] - expected[0])
    assert low == pytest.approx(expected[0], abs=tolerance)
    assert high == pytest.approx(expected[1], abs=tolerance)
    assert auroc_interval(scores, clusters=clusters) == (low, high)


def test_groups_count_alike() -> None:
    scores = np.random.default_rng(0).normal(size=(60, 2))
    groups = np.array([0] * 40 + [3] * 10 + [-1] * 10)
    expected = (by_pairs(scores[:40]) + by_pairs(scores[40:50])) / 2
    assert auroc(scores, groups) == pytest.approx(expected)
    low, high = auroc_interval(scores, groups, resamples=2000)
    assert low < expected < high
    # The smaller group decides the width.
    alone = auroc_interval(scores[40:50], resamples=2000)
    assert high - low == pytest.approx((alone[1] - alone[0]) / 2, rel=0.25)


def test_nothing_and_nonsense() -> None:
    assert math.isnan(auroc(np.zeros((0, 2))))
    assert all(math.isnan(end) for end in auroc_interval(np.zeros((0, 2))))
    assert math.isnan(auroc(np.zeros((2, 2)), [-1, -1]))
    with pytest.raises(InputError, match="group codes"):
        auroc(np.zeros((2, 2)), [0])
    with pytest.raises(InputError, match="shape"):
        auroc(np.zeros((2, 3)))
