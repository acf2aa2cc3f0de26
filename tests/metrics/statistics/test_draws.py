"""Counts of a bootstrap resample have the multinomial distribution, however they are made."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from contrapose.metrics.statistics import draws
from contrapose.metrics.statistics.draws import draw_counts, index_counts, poisson_counts


@pytest.mark.parametrize("units", [1, 2, 50, 1023, 1024, 5000])
def test_as_many_are_drawn_as_there_are(units: int) -> None:
    counts = draw_counts(np.random.default_rng(0), units, 20)
    assert counts.shape == (20, units)
    assert (counts.sum(axis=1, dtype=np.int64) == units).all()


@pytest.mark.parametrize("function", [index_counts, poisson_counts])
def test_each_count_is_binomial(function: object) -> None:
    assert callable(function)
    units, resamples = 1200, 500
    counts = function(np.random.default_rng(1), units, resamples)
    # Six draws or more, of which there are few hundred, are taken together.
    seen = np.bincount(np.minimum(counts.ravel(), 6), minlength=7)
    probability = stats.binom.pmf(np.arange(7), units, 1 / units)
    probability[6] = stats.binom.sf(5, units, 1 / units)
    expected = probability * counts.size
    chi2 = ((seen - expected) ** 2 / expected).sum()
    # 99.99 % of a χ² with one degree of freedom a count; the counts hardly depend on each other.
    assert chi2 < stats.chi2.ppf(0.9999, 6)
    # A count of eight or more is one in 100,000.
    rare = stats.binom.sf(7, units, 1 / units) * counts.size
    assert (counts >= 8).sum() < rare + 6 * math.sqrt(rare)


@pytest.mark.parametrize("function", [index_counts, poisson_counts])
def test_counts_are_as_correlated_as_they_should_be(function: object) -> None:
    """Var = 1 − 1/n and covariance −1/n: a sum over half of the units has variance n/4."""
    assert callable(function)
    units, resamples = 1100, 4000
    counts = function(np.random.default_rng(2), units, resamples).astype(float)
    half = counts[:, : units // 2].sum(axis=1)
    assert half.mean() == pytest.approx(units / 2, abs=5 * math.sqrt(units / 4 / resamples))
    assert half.var() == pytest.approx(units / 4, rel=5 * math.sqrt(2 / resamples))


def test_the_poisson_table_is_exact() -> None:
    """Whole cells and the remainder together give each probability back."""
    for rate in (0.5, 0.8125, 0.99):
        thresholds, remainder = draws._table(rate)
        cells = np.diff(np.concatenate([[0], thresholds.astype(int)])) / 65536
        left = 1 - thresholds[-1] / 65536
        probability = remainder * left
        probability[: len(cells)] += cells
        np.testing.assert_allclose(
            probability, stats.poisson.pmf(np.arange(len(probability)), rate), atol=1e-15
        )


def test_the_remainder_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few cells most counts come from the remainder, and the distribution stays."""
    monkeypatch.setattr(draws, "_CELLS", 8)
    draws._table.cache_clear()
    thresholds, remainder = draws._table(0.9)
    draws._table.cache_clear()
    assert len(thresholds) < 4
    cells = np.diff(np.concatenate([[0], thresholds.astype(int)])) / 8
    probability = remainder * (1 - thresholds[-1] / 8)
    probability[: len(cells)] += cells
    np.testing.assert_allclose(
        probability, stats.poisson.pmf(np.arange(len(probability)), 0.9), atol=1e-15
    )


def test_a_resample_that_overshoots_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "_MARGIN", 0.0)  # half of them overshoot
    counts = poisson_counts(np.random.default_rng(3), 2000, 200)
    assert (counts.sum(axis=1, dtype=np.int64) == 2000).all()
    assert counts.var() == pytest.approx(1, rel=0.02)
