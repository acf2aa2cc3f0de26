"""The normal limit of totals against drawn resamples, and where it gives way to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from contrapose.metrics import (
    FloatArray,
    IntArray,
    Statistic,
    combine,
    correlation_of,
    interval,
    intervals,
    macro_mean,
    mean_of,
    minimum_of_means,
    paired_bootstrap,
    replicates,
    standard_deviation,
)
from contrapose.metrics.statistics import bootstrap, limit
from contrapose.metrics.statistics.limit import TotalsLimit, find_limit
from contrapose.metrics.statistics.resampling import find_units, sum_units
from contrapose.metrics.statistics.statistic import alone, join

UNITS = 4_000
"""Units of these tests; the threshold is set to as many."""


@pytest.fixture(autouse=True)
def _low_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "LIMIT_FROM", UNITS)


def limit_of(statistic: Statistic, clusters: IntArray | None = None) -> TotalsLimit | None:
    joint = join(sum_units([statistic], clusters))
    return find_limit(joint, find_units(joint, None))


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def rare_misses() -> FloatArray:
    values = np.ones(UNITS)
    values[:8] = 0.0
    return values


CASES: dict[str, tuple[Callable[[], Statistic], bool]] = {
    "mean": (lambda: mean_of(rng().exponential(size=UNITS)), False),
    "ratio": (lambda: mean_of(rng().random(UNITS) < 0.3, rng().random(UNITS)), False),
    "deviation": (lambda: standard_deviation(rng().normal(size=UNITS)), False),
    "heavy tails": (lambda: standard_deviation(rng().standard_t(3, size=UNITS)), True),
    "one giant": (lambda: mean_of(np.append(rng().random(UNITS), 1e4)), True),
    "macro": (lambda: macro_mean(rng().normal(size=UNITS), np.arange(UNITS) % 4), False),
    "rare group": (
        lambda: macro_mean(rng().normal(size=UNITS), np.minimum(np.arange(UNITS) // 20, 1)),
        True,
    ),
    "few misses": (lambda: mean_of(rare_misses(), 1 + rng().random(UNITS)), True),
    "minimum": (lambda: minimum_of_means(rng().random(UNITS), rng().random(UNITS) ** 2), False),
    "correlation": (
        lambda: correlation_of(rng().normal(size=UNITS), rng().normal(size=(2, UNITS)).sum(0)),
        False,
    ),
}


def draw_both(
    statistic: Statistic, monkeypatch: pytest.MonkeyPatch, clusters: IntArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Replicates by the limit, and by drawing every unit."""
    limited = replicates(statistic, clusters=clusters)
    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "find_limit", lambda *_: None)
        return limited, replicates(statistic, clusters=clusters, resamples=4_000, seed=1)


def agree(limited: FloatArray, drawn: FloatArray) -> None:
    """Same spread and ends; quantiles of 4,000 resamples scatter by 0.042 standard errors."""
    error = drawn.std()
    assert limited.std() / error == pytest.approx(1, abs=0.04)
    for q in (0.025, 0.5, 0.975):
        assert abs(np.quantile(limited, q) - np.quantile(drawn, q)) < 0.16 * error


@pytest.mark.parametrize("name", CASES)
def test_the_limit_is_the_bootstrap(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build, outliers = CASES[name]
    statistic = build()
    distribution = limit_of(statistic)
    assert distribution is not None
    assert distribution.members.size or not outliers
    agree(*draw_both(statistic, monkeypatch))


def test_clusters_are_drawn_together(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = rng()
    clusters = draw.integers(0, UNITS + 400, 3 * UNITS)
    values = draw.normal(size=UNITS + 400)[clusters] + draw.normal(size=3 * UNITS)
    statistic = combine([mean_of(values, draw.random(len(values))), standard_deviation(values)])
    assert limit_of(statistic, clusters) is not None
    agree(*draw_both(statistic, monkeypatch, clusters))


def test_a_set_below_the_threshold_is_drawn_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    statistic = mean_of(rng().normal(size=UNITS - 1))
    assert limit_of(statistic) is None
    before = replicates(statistic, resamples=200)
    monkeypatch.setattr(bootstrap, "find_limit", lambda *_: None)
    np.testing.assert_array_equal(replicates(statistic, resamples=200), before)


def test_where_there_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many outliers, too many columns, few types: counts are drawn."""
    assert limit_of(mean_of(rng().random(UNITS) < 0.4)) is None
    values = mean_of(rng().standard_cauchy(UNITS))
    assert limit_of(values) is not None
    monkeypatch.setattr(limit, "MOST_OUTLIERS", 1)
    assert limit_of(values) is None
    monkeypatch.setattr(limit, "MOST_COLUMNS", 1)
    assert limit_of(mean_of(rng().random(UNITS))) is None


def test_many_types_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = rng()
    values = draw.integers(0, 250, 250 * 25).astype(np.float64)
    statistic = mean_of(values)
    joint = join([statistic])
    units = find_units(joint, None)
    assert units.few
    assert find_limit(joint, units) is not None
    agree(*draw_both(statistic, monkeypatch))


def test_runs_that_differ_on_few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences of exactly 0 stay 0: they count on both sides of a p-value."""
    first = rng().random(UNITS)
    second = first.copy()
    second[:5] += [0.5, 0.4, -0.5, 0.3, -0.1]
    pair = mean_of(first), mean_of(second)
    limited = paired_bootstrap(*pair)
    monkeypatch.setattr(bootstrap, "find_limit", lambda *_: None)
    drawn = paired_bootstrap(*pair, seed=1)
    assert limited.p == pytest.approx(drawn.p, abs=0.02)
    assert limited.ci95 == pytest.approx(drawn.ci95, abs=0.1 * (drawn.ci95[1] - drawn.ci95[0]))
    same = paired_bootstrap(pair[0], mean_of(first))
    assert (same.difference, same.ci95, same.p) == (0, (0, 0), 1)


def test_a_share_stays_a_share() -> None:
    low, high = interval(mean_of(rare_misses(), 1 + rng().random(UNITS), share=True), level=0.9999)
    assert 0.99 < low < high <= 1


def test_the_seed_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    statistic = standard_deviation(rng().normal(size=UNITS))
    first = replicates(statistic, seed=3)
    assert len(first) == bootstrap.RESAMPLES
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    np.testing.assert_array_equal(replicates(statistic, seed=3), first)
    assert not np.allclose(replicates(statistic, seed=4), first)


def test_together_as_alone() -> None:
    """Intervals of several statistics differ from those drawn alone by scatter, not by kind."""
    x = rng().normal(size=UNITS)
    mixed = [mean_of(x), standard_deviation(x), mean_of(x > 0), mean_of(x + 5)]
    bounds = intervals(mixed)
    for statistic, (low, high) in zip(mixed, bounds, strict=True):
        alone = interval(statistic, seed=5)
        assert (low, high) == pytest.approx(alone, abs=0.06 * (alone[1] - alone[0]))
    assert np.subtract(bounds[3], bounds[0]) == pytest.approx([5, 5])


@given(st.integers(0, 2**32 - 1), st.integers(0, 60), st.integers(1, 5))
@settings(deadline=None, max_examples=20)
def test_totals_have_the_moments_of_the_bootstrap(seed: int, giants: int, width: int) -> None:
    """Mean and covariance of totals, with outliers, and with equal and constant columns."""
    draw = np.random.default_rng(seed)
    columns = draw.normal(size=(UNITS, width)) * 10.0 ** draw.integers(-6, 7, width)
    columns[:giants] *= 30
    joint = alone(
        Statistic(np.column_stack([columns, columns[:, 0], np.ones(UNITS)]), lambda t: t[:, 0])
    )
    distribution = find_limit(joint, find_units(joint, None))
    if giants and width > 1:  # together the columns may have too many outliers
        assume(distribution is not None)
    assert distribution is not None
    drawn = distribution.draw(draw, 1_500)
    np.testing.assert_allclose(drawn[:, 0], drawn[:, width], rtol=1e-6)
    np.testing.assert_allclose(drawn[:, -1], UNITS, rtol=1e-12)
    errors = columns.std(axis=0) * np.sqrt(UNITS)
    standardized = (drawn[:, :width] - columns.sum(axis=0)) / errors
    assert np.abs(standardized.mean(axis=0)).max() < 6 / np.sqrt(1_500)
    expected = np.corrcoef(columns, rowvar=False).reshape(width, width)
    seen = np.cov(standardized, rowvar=False).reshape(width, width)
    assert np.abs(seen - expected).max() < 0.3
