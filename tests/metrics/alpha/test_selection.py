"""α chosen on one half and scored on the other."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from contrapose.errors import InputError
from contrapose.metrics import (
    AlphaIntervals,
    augmented_accuracy,
    augmented_intervals,
    brittle_intervals,
    brittleness,
    cross_validate,
    debias,
    group_intervals,
    group_score,
    image_score,
    original_accuracy,
    original_intervals,
    sweep,
    text_intervals,
    text_score,
)


def some(k: int = 200, seed: int = 0) -> AlphaIntervals:
    rng = np.random.default_rng(seed)
    middle = rng.normal(0.6, 0.2, size=k)
    return AlphaIntervals(middle - 0.2, middle + 0.2)


@pytest.mark.parametrize("weighted", [False, True])
def test_against_a_loop(weighted: bool) -> None:
    intervals = some(201)
    weights = np.random.default_rng(1).random(201) if weighted else np.ones(201)
    found = cross_validate(intervals, seed=3, weights=weights if weighted else None)
    assert found.alphas.shape == found.values.shape == (10,)
    for alpha, value, scored in zip(found.alphas, found.values, found.scored, strict=True):
        assert scored.sum() == 101
        half = intervals.only(~scored)
        assert alpha == sweep(half.lower, half.upper, weights[~scored]).best().alpha
        right = intervals.right_at(alpha)[scored]
        assert value == pytest.approx(np.average(right, weights=weights[scored]))
    assert found.mean == pytest.approx(found.values.mean())
    assert found.std == pytest.approx(found.values.std(ddof=1))


def test_held_out_outcomes_add_up() -> None:
    intervals = some()
    found = cross_validate(intervals)
    count, mean = found.held_out.count, found.held_out.mean
    assert count.sum() == 10 * 100
    known = count > 0
    assert np.isnan(mean[~known]).all()
    total = (mean[known] * count[known]).sum() / count.sum()
    assert total == pytest.approx(found.mean)


def test_no_better_than_the_oracle_on_average() -> None:
    rng = np.random.default_rng(0)
    lower = rng.random(60)
    intervals = AlphaIntervals(lower, lower + 0.1)  # nothing to learn: the oracle overfits
    oracle = sweep(intervals.lower, intervals.upper).best().accuracy
    assert cross_validate(intervals, repeats=50).mean < oracle


def test_clusters_stay_together_and_seeds_decide() -> None:
    clusters = np.repeat(np.arange(50), 4)
    found = cross_validate(some(), clusters)
    for scored in found.scored:
        assert len({(c, s) for c, s in zip(clusters, scored, strict=True)}) == 50
    np.testing.assert_array_equal(cross_validate(some(), clusters).values, found.values)
    assert (cross_validate(some(), clusters, seed=1).values != found.values).any()


def test_unions_of_intervals() -> None:
    lower = np.array([[0.0, 0.6]] * 20)
    upper = np.array([[0.2, 0.9]] * 20)
    found = cross_validate(AlphaIntervals(lower, upper))
    assert found.mean == 1
    np.testing.assert_allclose(found.alphas, 0.75)


def test_weights() -> None:
    intervals = AlphaIntervals(np.array([0.0] * 90 + [0.5] * 30), np.array([0.5] * 90 + [1.0] * 30))
    assert (cross_validate(intervals).alphas < 0.5).all()
    weights = np.array([1.0] * 90 + [100.0] * 30)
    assert (cross_validate(intervals, weights=weights).alphas > 0.5).all()


def test_one_example_cannot_be_parted() -> None:
    with pytest.raises(InputError, match="two halves"):
        cross_validate(some(1))
    with pytest.raises(InputError, match="two halves"):
        cross_validate(some(10), np.zeros(10, dtype=int))
    assert cross_validate(some(10), repeats=1).std == 0


Floats = NDArray[np.floating[Any]]
SEEDS = st.integers(0, 2**32 - 1)
GRID = np.linspace(0, 1, 1001)
MATCH = np.eye(2, dtype=bool)


def pairs(seed: int, k: int = 60) -> tuple[Floats, Floats]:
    """Multiples of 1/8, so that debiasing at a dyadic α is exact; ties are common."""
    rng = np.random.default_rng(seed)
    lm = rng.integers(-40, 0, size=(k, 2, 2)) / 8
    prior = rng.integers(-40, 0, size=(k, 2)) / 8
    return lm, prior


@given(SEEDS)
def test_text_and_group_as_evaluated(seed: int) -> None:
    lm, prior = pairs(seed)
    for intervals, score in (
        (text_intervals(lm, prior, MATCH), text_score),
        (group_intervals(lm, prior, MATCH), group_score),
    ):
        curve = sweep(intervals.lower, intervals.upper)
        for alpha in (0.0, 0.125, 0.5, 0.75, 1.0):
            expected = score(debias(lm, prior, alpha), MATCH)
            np.testing.assert_array_equal(intervals.right_at(alpha), expected.values > 0)
            assert curve.at(alpha) == pytest.approx(expected.mean())


@given(SEEDS)
def test_triples_as_evaluated(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lm, prior = rng.integers(-40, 0, size=(2, 60, 3)) / 8
    for intervals, score in (
        (original_intervals(lm, prior), original_accuracy),
        (augmented_intervals(lm, prior), augmented_accuracy),
        (brittle_intervals(lm, prior), brittleness),
    ):
        curve = sweep(intervals.lower, intervals.upper)
        for alpha in (0.0, 0.25, 0.5, 1.0):
            expected = score(lm - alpha * prior)
            np.testing.assert_array_equal(intervals.right_at(alpha), expected.values > 0)
            assert curve.at(alpha) == pytest.approx(expected.mean())


@given(SEEDS, st.integers(1, 3), st.integers(2, 4))
def test_any_shape_as_evaluated(seed: int, m: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    lm = rng.integers(-40, 0, size=(30, m, n)) / 8
    prior = rng.integers(-40, 0, size=(30, n)) / 8
    match = rng.random((30, m, n)) < 0.5
    match[:, 0, 0], match[:, 0, 1] = True, False
    present = rng.random((30, m, n)) < 0.7
    present[:, 0, :2] = True
    lm[~present] = np.nan
    prior[~present.any(axis=1)] = np.nan
    intervals = text_intervals(lm, prior, match, present)
    for alpha in (0.0, 0.375, 1.0):
        scores = lm - alpha * np.nan_to_num(prior)[:, None]
        expected = text_score(scores, match, present).values > 0
        np.testing.assert_array_equal(intervals.right_at(alpha), expected)


@given(SEEDS)
def test_the_best_is_never_below_a_fine_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lm, prior = rng.normal(size=(80, 2, 2)), rng.normal(size=(80, 2))
    intervals = text_intervals(lm, prior, MATCH)
    curve = sweep(intervals.lower, intervals.upper)
    best = curve.best()
    by_grid = [text_score(debias(lm, prior, a), MATCH).mean() for a in GRID[::20]]
    np.testing.assert_allclose(curve.points(GRID[::20]), by_grid)
    assert best.accuracy >= curve.points(GRID).max()
    assert best.accuracy == pytest.approx(text_score(debias(lm, prior, best.alpha), MATCH).mean())
    assert best.accuracy == curve.at(best.alpha)
    assert 0 <= best.lower < best.alpha < best.upper <= 1
    # The segment is open and whole: constant inside, and ends where something changes.
    inside = np.linspace(best.lower, best.upper, 50)[1:-1]
    assert (curve.points(inside) == best.accuracy).all()


@settings(max_examples=25)
@given(SEEDS)
def test_the_exact_sweep_equals_a_grid_of_a_ten_thousandth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lm, prior = rng.normal(size=(30, 2, 2)), rng.normal(size=(30, 2))
    grid = np.linspace(0, 1, 10_001)
    scores = lm - grid[:, None, None, None] * prior[:, None, :]
    right = (scores[..., 0, 0] > scores[..., 0, 1]) & (scores[..., 1, 1] > scores[..., 1, 0])
    by_grid = right.mean(axis=1)
    intervals = text_intervals(lm, prior, MATCH)
    curve = sweep(intervals.lower, intervals.upper)
    ends = curve.segments()
    clear = np.abs(grid[:, None] - ends).min(axis=1) > 1e-9  # at an end it is rounding that decides
    np.testing.assert_allclose(curve.points(grid[clear]), by_grid[clear], atol=1e-12)
    best = curve.best()
    assert best.accuracy >= by_grid.max() - 1e-12
    if best.upper - best.lower > 2e-4:
        assert best.accuracy == pytest.approx(by_grid.max())


@given(SEEDS)
def test_the_widest_best_segment_and_the_first_of_equals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lower = rng.integers(-2, 8, size=12) / 8
    upper = lower + rng.integers(0, 6, size=12) / 8
    best = sweep(lower, upper).best()
    alive = lower < upper
    ends = np.unique(np.concatenate([[0, 1], lower[alive], upper[alive]]))
    segments = [
        (sum((lower < (a + b) / 2) & ((a + b) / 2 < upper)) / 12, b - a, -a)
        for a, b in itertools.pairwise(ends[(ends >= 0) & (ends <= 1)])
    ]
    accuracy, width, start = max(segments)
    assert (best.accuracy, best.upper - best.lower, best.lower) == (accuracy, width, -start)


@given(SEEDS)
def test_the_image_score_does_not_move(seed: int) -> None:
    lm, prior = pairs(seed)
    plain = image_score(lm, MATCH).values
    for alpha in (0.25, 0.5, 1.0):
        np.testing.assert_array_equal(image_score(debias(lm, prior, alpha), MATCH).values, plain)
    intervals = group_intervals(lm, prior, MATCH)
    assert (intervals.lower >= intervals.upper)[plain == 0].all()


@given(SEEDS)
def test_a_constant_prior_changes_nothing(seed: int) -> None:
    lm, _ = pairs(seed)
    intervals = text_intervals(lm, np.full((60, 2), -3.0), MATCH)
    curve = sweep(intervals.lower, intervals.upper)
    raw = text_score(lm, MATCH).mean()
    np.testing.assert_allclose(curve.points(GRID), raw)
    assert curve.best().alpha == 0.5
    assert (curve.best().lower, curve.best().upper) == (0, 1)


def test_weights_make_a_macro_average() -> None:
    rng = np.random.default_rng(0)
    lower, upper = np.sort(rng.random((2, 50)), axis=0)
    groups = np.array([0] * 40 + [1] * 10)
    weights = 1 / (2 * np.array([40, 10])[groups])
    curve = sweep(lower, upper, weights)
    right = AlphaIntervals(lower, upper).right_at(0.5)
    assert curve.at(0.5) == pytest.approx((right[:40].mean() + right[40:].mean()) / 2)


def test_impossible_captions() -> None:
    """log 0 against log 0 is a tie, whatever α; log 0 never beats anything."""
    lm = np.array([[[-np.inf, -np.inf]], [[-1.0, -np.inf]], [[-np.inf, -1.0]]])
    intervals = text_intervals(lm, np.array([[-1.0, -2.0]] * 3), np.array([[True, False]]))
    assert intervals.right_at(0.5).tolist() == [False, True, False]


def test_open_ends() -> None:
    curve = sweep([0.2, 0.6], [0.6, 0.9])
    assert curve.at(0.2) == 0
    assert curve.at(0.6) == 0
    assert curve.at(0.4) == 0.5
    best = curve.best()
    assert (best.lower, best.upper) == (0.2, 0.6)
    assert best.alpha == pytest.approx(0.4)


def test_nothing_ever_right() -> None:
    best = sweep([np.inf], [-np.inf]).best()
    assert (best.accuracy, best.alpha) == (0.0, 0.5)


def test_what_cannot_be_swept_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be swept"):
        sweep([], [])
    with pytest.raises(InputError, match="weights"):
        sweep([0.0], [1.0], [1.0, 2.0])
    with pytest.raises(InputError, match="nothing to choose"):
        text_intervals(np.zeros((1, 1, 2)), np.zeros((1, 2)), np.array([[True, True]]))
    with pytest.raises(InputError, match="log priors"):
        text_intervals(np.zeros((1, 2, 2)), np.zeros((1, 2, 2)), MATCH)
    with pytest.raises(InputError, match="infinite"):
        text_intervals(np.zeros((1, 2, 2)), np.full((1, 2), -np.inf), MATCH)
