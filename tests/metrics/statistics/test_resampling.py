"""Clusters are the connected components of examples that share a key."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from contrapose.metrics import clusters_of, has_repeats, join_clusters
from contrapose.metrics.statistics import resampling
from contrapose.metrics.statistics.resampling import draw_counts, index_counts, poisson_counts

KEYS = st.lists(st.lists(st.sampled_from("abcdefghijkl"), max_size=3), max_size=30)


def by_scipy(keys: list[list[str]]) -> list[int]:
    names = sorted({key for own in keys for key in own})
    size = len(keys) + len(names)
    edges = [(i, len(keys) + names.index(key)) for i, own in enumerate(keys) for key in own]
    rows, columns = [e[0] for e in edges], [e[1] for e in edges]
    graph = coo_array((np.ones(len(edges)), (rows, columns)), shape=(size, size))
    _, labels = connected_components(graph, directed=False)
    order: dict[int, int] = {}
    return [order.setdefault(int(label), len(order)) for label in labels[: len(keys)]]


@given(KEYS)
def test_against_scipy(keys: list[list[str]]) -> None:
    codes = clusters_of(keys)
    assert codes.tolist() == (by_scipy(keys) if keys else [])
    assert has_repeats(codes) == (len(set(codes.tolist())) < len(keys))


def test_chains_are_one_cluster_however_they_are_ordered() -> None:
    links = [[str(i), str(i + 1)] for i in range(2000)]
    order = np.random.default_rng(0).permutation(2000)
    assert clusters_of([links[i] for i in order]).max() == 0
    assert clusters_of(links[::-1]).max() == 0
    assert not has_repeats(clusters_of(links[::2]))


def test_a_quarter_of_a_million_examples_in_seconds() -> None:
    rng = np.random.default_rng(0)
    images = [f"video{i // 40}/frame{i}" for i in range(400_000)]
    first = rng.integers(0, 400_000, size=250_000)
    keys = [(images[i], images[i ^ 1]) for i in first]
    start = time.process_time()
    codes = clusters_of(keys)
    assert time.process_time() - start < 5
    assert codes.max() + 1 == len(set((first // 2).tolist()))


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
        thresholds, remainder = resampling._poisson_table(rate)
        cells = np.diff(np.concatenate([[0], thresholds.astype(int)])) / 65536
        left = 1 - thresholds[-1] / 65536
        probability = remainder * left
        probability[: len(cells)] += cells
        np.testing.assert_allclose(
            probability, stats.poisson.pmf(np.arange(len(probability)), rate), atol=1e-15
        )


def test_the_remainder_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few cells most counts come from the remainder, and the distribution stays."""
    monkeypatch.setattr(resampling, "_CELLS", 8)
    resampling._poisson_table.cache_clear()
    thresholds, remainder = resampling._poisson_table(0.9)
    resampling._poisson_table.cache_clear()
    assert len(thresholds) < 4
    cells = np.diff(np.concatenate([[0], thresholds.astype(int)])) / 8
    probability = remainder * (1 - thresholds[-1] / 8)
    probability[: len(cells)] += cells
    np.testing.assert_allclose(
        probability, stats.poisson.pmf(np.arange(len(probability)), 0.9), atol=1e-15
    )


def test_a_resample_that_overshoots_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "_MARGIN", 0.0)  # half of them overshoot
    counts = poisson_counts(np.random.default_rng(3), 2000, 200)
    assert (counts.sum(axis=1, dtype=np.int64) == 2000).all()
    assert counts.var() == pytest.approx(1, rel=0.02)


@given(st.integers(0, 40), st.integers(1, 30), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_joined_clusters_are_those_of_shared_keys(k: int, size: int, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, size, (3, k))
    for some in (codes, codes[:1], [codes[0], np.arange(k)]):
        keys = [{(side, int(code[i])) for side, code in enumerate(some)} for i in range(k)]
        assert join_clusters(list(some)).tolist() == clusters_of(keys).tolist()


def test_a_long_chain_of_clusters_is_one() -> None:
    pairs = np.arange(3_001)
    order = np.random.default_rng(0).permutation(3_001)
    assert not join_clusters([pairs[order] // 2, (pairs[order] + 1) // 2]).any()
