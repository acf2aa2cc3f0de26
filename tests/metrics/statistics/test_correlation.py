from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from contrapose.errors import InputError
from contrapose.metrics import correlation_of, interval

RNG = np.random.default_rng(3)
X = RNG.normal(size=300)
Y = 0.6 * X + RNG.normal(size=300)


def test_equals_scipy() -> None:
    assert correlation_of(X, Y).value() == pytest.approx(stats.pearsonr(X, Y).statistic, abs=1e-12)


def test_far_from_zero_and_tiny() -> None:
    expected = stats.pearsonr(X, Y).statistic
    assert correlation_of(1e4 + 1e-2 * X, 1e-9 * Y).value() == pytest.approx(expected, abs=1e-8)


def test_an_example_of_weight_zero_does_not_count() -> None:
    weights = (np.arange(300) % 3 > 0).astype(float)
    wild = np.where(weights > 0, Y, 1e6)
    kept = weights > 0
    expected = stats.pearsonr(X[kept], Y[kept]).statistic
    assert correlation_of(X, wild, weights).value() == pytest.approx(expected, abs=1e-12)


def test_interval_is_that_of_resampled_pairs() -> None:
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(2000):
        rows = rng.integers(0, 300, 300)
        drawn.append(np.corrcoef(X[rows], Y[rows])[0, 1])
    expected = np.quantile(drawn, [0.025, 0.975])
    assert interval(correlation_of(X, Y)) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("other", [np.zeros(300), np.full(300, 0.1), 0.1 + 1e-17 * X])
def test_undefined_where_one_does_not_vary(other: np.ndarray) -> None:
    statistic = correlation_of(X, other)
    assert np.isnan(statistic.value())
    assert np.isnan(interval(statistic)).all()


def test_resamples_without_spread_are_left_out() -> None:
    statistic = correlation_of([0.1, 0.3], [0.7, 0.2])
    assert statistic.value() == pytest.approx(-1)
    assert interval(statistic) == pytest.approx((-1, -1))


def test_nothing_counts() -> None:
    assert np.isnan(correlation_of([], []).value())
    assert np.isnan(correlation_of([1.0, 2.0], [1.0, 2.0], [0, 0]).value())


def test_refuses() -> None:
    with pytest.raises(InputError, match="as many"):
        correlation_of([1.0], [1.0, 2.0])
    with pytest.raises(InputError, match="negative"):
        correlation_of([1.0], [1.0], [-1])
    with pytest.raises(InputError, match="NaN"):
        correlation_of([np.nan], [1.0])
