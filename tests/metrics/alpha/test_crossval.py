"""α chosen on one half and scored on the other."""

from __future__ import annotations

import numpy as np
import pytest

from contrapose.errors import InputError
from contrapose.metrics import Intervals, cross_validate, sweep


def some(k: int = 200, seed: int = 0) -> Intervals:
    rng = np.random.default_rng(seed)
    middle = rng.normal(0.6, 0.2, size=k)
    return Intervals(middle - 0.2, middle + 0.2)


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
    intervals = Intervals(lower, lower + 0.1)  # nothing to learn: the oracle overfits
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
    found = cross_validate(Intervals(lower, upper))
    assert found.mean == 1
    np.testing.assert_allclose(found.alphas, 0.75)


def test_weights() -> None:
    intervals = Intervals(np.array([0.0] * 90 + [0.5] * 30), np.array([0.5] * 90 + [1.0] * 30))
    assert (cross_validate(intervals).alphas < 0.5).all()
    weights = np.array([1.0] * 90 + [100.0] * 30)
    assert (cross_validate(intervals, weights=weights).alphas > 0.5).all()


def test_one_example_cannot_be_parted() -> None:
    with pytest.raises(InputError, match="two halves"):
        cross_validate(some(1))
    with pytest.raises(InputError, match="two halves"):
        cross_validate(some(10), np.zeros(10, dtype=int))
    assert cross_validate(some(10), repeats=1).std == 0
