"""Intervals of shares near 0 and 1 and of few units, against scipy and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from contrapose.errors import InputError
from contrapose.metrics import (
    auroc_interval,
    clopper_pearson,
    combine,
    interval,
    intervals,
    macro_mean,
    mean_of,
    minimum_of_means,
    percentile_interval,
    replicates,
)
from contrapose.metrics.statistics.shares import effective_units, exact_interval


@pytest.mark.parametrize(
    ("hits", "n"), [(0, 1), (1, 1), (4, 4), (1, 10), (3, 400), (0.5, 7.3), (99_998, 100_000)]
)
def test_clopper_pearson_is_scipys(hits: float, n: float) -> None:
    low, high = clopper_pearson(hits, n)
    expected_low = 0.0 if hits == 0 else stats.beta.ppf(0.025, hits, n - hits + 1)
    expected_high = 1.0 if hits == n else stats.beta.ppf(0.975, hits + 1, n - hits)
    assert (low, high) == pytest.approx((expected_low, expected_high), rel=1e-9, abs=1e-12)


def test_no_share_is_refused() -> None:
    with pytest.raises(InputError, match="not a share"):
        clopper_pearson(3, 2)


@pytest.mark.parametrize(("hits", "n"), [(4, 4), (0, 4), (1, 1), (100, 100), (0, 400), (398, 400)])
def test_shares_near_the_ends_are_no_points(hits: int, n: int) -> None:
    values = np.repeat([1.0, 0.0], [hits, n - hits])
    expected = clopper_pearson(hits, n)
    assert expected[1] - expected[0] > 0.005
    assert interval(mean_of(values)) == pytest.approx(expected)
    assert intervals([mean_of(values)])[0] == pytest.approx(expected)
    one_group = np.zeros(n, dtype=np.int64)
    assert interval(macro_mean(values, one_group)) == pytest.approx(expected)
    assert interval(minimum_of_means(values, np.ones(n))) == pytest.approx(expected)
    assert interval(combine([mean_of(values)] * 2)) == pytest.approx(expected)


def test_other_shares_are_bootstrapped_as_before() -> None:
    for hits, n in ((5, 10), (32, 400), (5, 1000)):
        statistic = mean_of(np.repeat([1.0, 0.0], [hits, n - hits]))
        assert exact_interval(statistic) is None
        assert interval(statistic) == percentile_interval(replicates(statistic))


def test_a_cluster_counts_once() -> None:
    """A hundred images with five examples each, all right, are a hundred observations."""
    clusters = np.arange(500) // 5
    assert interval(mean_of(np.ones(500)), clusters=clusters) == pytest.approx(
        clopper_pearson(100, 100)
    )
    assert effective_units(np.array([490.0, *[1.0] * 10])) == pytest.approx(1.04, abs=0.01)


def test_macro_weights_are_those_of_the_mean() -> None:
    rng = np.random.default_rng(0)
    values, groups = (rng.random(60) < 0.9).astype(float), rng.integers(-1, 4, 60)
    statistic = macro_mean(values, groups, [0, 0, 1, 2])
    assert statistic.share is not None
    hits, weights = statistic.share()
    assert weights.sum() == pytest.approx(1)
    assert hits.sum() == pytest.approx(statistic.value())
    both = combine([statistic, mean_of(values)], [1, 3])
    assert both.share is not None
    assert both.share()[0].sum() == pytest.approx(both.value())


def test_few_clusters_have_no_interval() -> None:
    values = (np.arange(500) % 3 == 0).astype(float)
    for count in (1, 2, 9):
        assert np.isnan(interval(mean_of(values), clusters=np.arange(500) % count)).all()
    assert not np.isnan(interval(mean_of(values), clusters=np.arange(500) % 10)).any()
    scores = np.random.default_rng(0).normal(size=(500, 2))
    assert np.isnan(auroc_interval(scores, clusters=np.arange(500) % 9)).all()


def test_few_independent_values_have_an_interval_only_as_a_share() -> None:
    assert np.isnan(interval(mean_of(np.arange(9.0)))).all()
    assert interval(mean_of(np.array([1.0, 0.0, 1.0]))) == clopper_pearson(2, 3)


def test_a_full_area_is_no_point() -> None:
    scores = np.stack([np.arange(20.0) + 100, np.arange(20.0)], axis=1)
    assert auroc_interval(scores) == clopper_pearson(20, 20)


def test_values_that_are_no_share_are_none() -> None:
    """A mean of real values that happen to be all 0 keeps its point."""
    assert interval(mean_of(np.zeros(50), share=False)) == (0, 0)
    assert interval(mean_of(np.full(50, 0.5), share=True)) == pytest.approx((0.5, 0.5))


def test_coverage_near_one() -> None:
    """Shares of 0.99 in 100 examples lie in at least 95 % of their intervals."""
    rng = np.random.default_rng(0)
    hits = rng.binomial(100, 0.99, size=400)
    inside = 0
    for count in hits.tolist():
        values = np.repeat([1.0, 0.0], [count, 100 - count])
        low, high = interval(mean_of(values), resamples=1000)
        inside += low <= 0.99 <= high
    assert inside / 400 > 0.94
