"""Statistics as functions of sums, against numpy on the values themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from contrapose.errors import InputError
from contrapose.metrics import (
    Statistic,
    combine,
    correlation_of,
    interval,
    macro_mean,
    mean_of,
    minimum_of_means,
    standard_deviation,
)
from contrapose.metrics.statistics.statistic import join, renumber

VALUES = st.one_of(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=40),
    st.lists(st.floats(-100, 100), min_size=1, max_size=40),
)


def expand(statistic: Statistic) -> np.ndarray:
    """(k, c) what each example adds."""
    if statistic.kinds is None:
        return np.asarray(statistic.columns)
    return np.asarray(statistic.columns[statistic.kinds])


def macro_by_loop(values: np.ndarray, groups: np.ndarray, parents: list[int] | None) -> float:
    means = {g: values[groups == g].mean() for g in set(groups.tolist()) if g >= 0}
    if parents is not None:
        nested: dict[int, list[float]] = {}
        for group, mean in means.items():
            nested.setdefault(parents[group], []).append(mean)
        return float(np.mean([np.mean(children) for children in nested.values()]))
    return float(np.mean(list(means.values())))


@given(VALUES, st.integers(0, 2**32 - 1))
def test_values_and_resampled_values(values: list[float], seed: int) -> None:
    """Each statistic of a resample is the statistic of the resampled values."""
    rng = np.random.default_rng(seed)
    x = np.array(values)
    k = len(x)
    y, weights = rng.random(k), rng.integers(0, 3, size=k).astype(float)
    weights[0] = 1.0
    groups = rng.integers(-1, 4, size=k)
    groups[0] = 0
    parents = [0, 1, 1, 2]
    drawn = np.concatenate([[0], rng.integers(0, k, size=k)])
    for index in (np.arange(k), drawn):
        xs, ys, ws, gs = x[index], y[index], weights[index], groups[index]
        for statistic, expected in (
            (mean_of(x), xs.mean()),
            (mean_of(x, weights), np.average(xs, weights=ws)),
            (standard_deviation(x), xs.std()),
            (macro_mean(x, groups), macro_by_loop(xs, gs, None)),
            (macro_mean(x, groups, parents), macro_by_loop(xs, gs, parents)),
            (minimum_of_means(x, y), min(xs.mean(), ys.mean())),
            (
                minimum_of_means(x, y, weights),
                min(np.average(xs, weights=ws), np.average(ys, weights=ws)),
            ),
            (
                combine([mean_of(x), macro_mean(x, groups), standard_deviation(y)], [1, 2, 1]),
                (xs.mean() + 2 * macro_by_loop(xs, gs, None) + ys.std()) / 4,
            ),
        ):
            totals = expand(statistic)[index].sum(axis=0)
            found = float(statistic.formula(totals[None])[0])
            assert found == pytest.approx(expected, abs=1e-6, rel=1e-9)
            if len(index) == k and (index == np.arange(k)).all():
                assert statistic.value() == pytest.approx(expected, abs=1e-6, rel=1e-9)


def test_a_mean_far_from_zero_keeps_its_spread() -> None:
    values = 1e9 + np.random.default_rng(0).normal(size=1000)
    assert standard_deviation(values).value() == pytest.approx(values.std(), rel=1e-6)


def test_empty_groups_are_left_out() -> None:
    statistic = macro_mean([1.0, 0.0, 0.0], [0, 1, 1], parents=[0, 0, 0])
    without_first = expand(statistic)[1:].sum(axis=0)
    assert float(statistic.formula(without_first[None])[0]) == 0.0
    assert np.isnan(statistic.formula(np.zeros((1, len(without_first))))[0])


def test_gaps_in_codes_do_not_matter() -> None:
    assert macro_mean([1.0, 0.0], [5, 2]).value() == 0.5


def test_nothing_counted_is_nan() -> None:
    for statistic in (
        mean_of([]),
        mean_of([1.0], [0.0]),
        standard_deviation([]),
        macro_mean([1.0, 2.0], [-1, -1]),
        macro_mean([], []),
        minimum_of_means([], []),
        combine([mean_of([]), mean_of([])]),
    ):
        assert np.isnan(statistic.value())


def test_combine_leaves_out_what_is_undefined() -> None:
    assert combine([mean_of([1.0]), mean_of([0.3], [0.0])]).value() == 1.0


def test_binary_outcomes_are_few_kinds() -> None:
    outcomes = np.random.default_rng(0).integers(0, 2, size=5000).astype(float)
    groups = np.arange(5000) % 50
    assert len(mean_of(outcomes).columns) <= 4
    assert macro_mean(outcomes, groups).columns.shape == (101, 100)


def test_common_columns_are_kept_once() -> None:
    x = np.random.default_rng(0).normal(size=500)
    joint = join([mean_of(x), standard_deviation(x), mean_of(np.abs(x))])
    assert joint.columns.shape == (500, 4)  # x, 1, x², |x|


@given(st.lists(st.integers(0, 30), min_size=1, max_size=50))
def test_renumbering(codes: list[int]) -> None:
    _, expected = np.unique(codes, return_inverse=True)
    for size in (31, 10**9):
        found, count = renumber(np.array(codes), size)
        np.testing.assert_array_equal(found, expected)
        assert count == len(set(codes))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mean_of([1.0, np.nan]), "NaN"),
        (lambda: mean_of([1.0], [1.0, 2.0]), "one value an example"),
        (lambda: mean_of([1.0], [-1.0]), "negative"),
        (lambda: macro_mean([1.0], [0, 1]), "group codes"),
        (lambda: macro_mean([1.0], [0.5]), "integers"),
        (lambda: macro_mean([1.0], [3], parents=[0]), "parent"),
        (lambda: combine([]), "share their examples"),
        (lambda: combine([mean_of([1.0]), mean_of([1.0, 2.0])]), "share their examples"),
        (lambda: combine([mean_of([1.0])], [1.0, 2.0]), "weights"),
    ],
)
def test_what_does_not_fit_is_refused(make: object, words: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=words):
        make()


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
    statistic = correlation_of([0.1, 0.3] * 5, [0.7, 0.2] * 5)
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


def test_rounding_puts_no_share_above_one() -> None:
    """Ones of many weights, beside zeros that do not count."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        weights = np.concatenate([rng.random(9063), np.zeros(8933)])
        values = np.repeat([1.0, 0.0], [9063, 8933])
        order = rng.permutation(17996)
        assert mean_of(values[order], weights[order]).value() == 1
