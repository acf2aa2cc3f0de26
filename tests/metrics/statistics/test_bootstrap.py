"""The bootstrap against plain index resampling, its clusters, and the AUROC by all pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from contrapose.errors import InputError
from contrapose.metrics import (
    Statistic,
    auroc,
    auroc_interval,
    combine,
    interval,
    intervals,
    macro_mean,
    mean_of,
    minimum_of_means,
    percentile_interval,
    replicates,
    standard_deviation,
)
from contrapose.metrics.statistics import bootstrap
from contrapose.metrics.statistics.resampling import find_units
from contrapose.metrics.statistics.statistic import join

R = 4000


def by_index(
    statistic: Statistic, clusters: np.ndarray | None = None, resamples: int = R, seed: int = 99
) -> np.ndarray:
    """The textbook bootstrap: draw units, concatenate their examples, compute."""
    rng = np.random.default_rng(seed)
    columns = statistic.columns
    if statistic.kinds is not None:
        columns = columns[statistic.kinds]
    codes = np.arange(len(columns)) if clusters is None else clusters
    members = np.argsort(codes, kind="stable")  # examples, unit after unit
    _, firsts, sizes = np.unique(codes[members], return_index=True, return_counts=True)
    found = []
    for _ in range(0, resamples, 100):
        drawn = rng.integers(0, len(sizes), size=(100, len(sizes)))
        lengths = sizes[drawn].ravel()
        ends = np.cumsum(lengths)
        index = members[
            np.arange(ends[-1]) + np.repeat(firsts[drawn].ravel() - ends + lengths, lengths)
        ]
        starts = np.concatenate([[0], ends[len(sizes) - 1 : -1 : len(sizes)]])
        found.append(statistic.formula(np.add.reduceat(columns[index], starts)))
    return np.concatenate(found)


def agree(a: np.ndarray, b: np.ndarray) -> None:
    """Two samples of one distribution: mean, variance, tails, and Kolmogorov-Smirnov."""
    a, b = a[~np.isnan(a)], b[~np.isnan(b)]
    spread = math.sqrt((a.var() + b.var()) / 2)
    assert spread > 0
    assert abs(a.mean() - b.mean()) < 5 * spread * math.sqrt(1 / len(a) + 1 / len(b))
    assert a.var() / b.var() == pytest.approx(1, abs=0.15)
    # The error of a tail quantile is sqrt(q(1 − q)/R)/density, 0.04 of a spread for R = 4000.
    for q in (0.025, 0.975):
        assert abs(np.quantile(a, q) - np.quantile(b, q)) < 0.25 * spread
    # Few distinct values make the test conservative; it still catches a wrong distribution.
    assert stats.ks_2samp(a, b).pvalue > 1e-5


def outcomes(k: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random(k) < 0.3).astype(float)


STATISTICS = {
    "binary": lambda: mean_of(outcomes(400)),
    "continuous": lambda: mean_of(np.random.default_rng(1).exponential(size=150)),
    "large continuous": lambda: mean_of(np.random.default_rng(1).exponential(size=1500)),
    "spread": lambda: standard_deviation(np.random.default_rng(2).normal(size=120)),
    "weighted": lambda: mean_of(outcomes(200), np.random.default_rng(3).random(200)),
    "macro": lambda: macro_mean(outcomes(300), np.arange(300) % 7, [0, 0, 0, 1, 1, 2, 2]),
    "small groups": lambda: macro_mean(outcomes(40), np.minimum(np.arange(40) // 2, 5)),
    "minimum": lambda: minimum_of_means(outcomes(300, 1), outcomes(300, 2)),
    "combined": lambda: combine([mean_of(outcomes(300, 1)), mean_of(outcomes(300, 2))], [1, 3]),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_as_the_textbook_bootstrap(name: str) -> None:
    statistic = STATISTICS[name]()
    agree(replicates(statistic, resamples=R), by_index(statistic))


@pytest.mark.parametrize("name", STATISTICS)
def test_as_the_textbook_bootstrap_with_clusters(name: str) -> None:
    statistic = STATISTICS[name]()
    # Clusters of uneven size, with gaps between the codes.
    clusters = 3 * (
        np.random.default_rng(5).integers(0, statistic.examples // 3, statistic.examples)
    )
    agree(replicates(statistic, clusters=clusters, resamples=R), by_index(statistic, clusters))


def test_both_ways_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    statistic = mean_of(outcomes(2000))
    assert find_units(join([statistic]), None).few
    by_type = replicates(statistic, resamples=R)
    monkeypatch.setattr("contrapose.metrics.statistics.resampling.BINOMIAL_COST", 10**9)
    assert not find_units(join([statistic]), None).few
    agree(by_type, replicates(statistic, resamples=R, seed=1))


def test_two_rows_with_one_key_are_not_confused(monkeypatch: pytest.MonkeyPatch) -> None:
    """When keys collide, types are given up and the answer stays right."""

    class Zero:
        def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
            return np.zeros(shape)

    statistic = Statistic(np.repeat(np.eye(2), 200, axis=0), lambda t: t[:, 0] / t.sum(axis=1))
    expected = find_units(join([statistic]), None)
    assert expected.few
    assert sorted(expected.counts.tolist()) == [200, 200]
    monkeypatch.setattr(
        "contrapose.metrics.statistics.resampling.np.random.default_rng", lambda _: Zero()
    )
    given_up = find_units(join([statistic]), None)
    assert not given_up.few
    np.testing.assert_array_equal(given_up.rows, statistic.columns)


@pytest.mark.parametrize("continuous", [False, True])
def test_correlated_clusters_widen_the_interval(continuous: bool) -> None:
    """Four copies of each example tell no more than one: the interval is twice as wide."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=500) if continuous else outcomes(500)
    values, clusters = np.repeat(base, 4), np.repeat(np.arange(500), 4)
    low, high = interval(mean_of(values))
    clustered = interval(mean_of(values), clusters=clusters)
    assert (clustered[1] - clustered[0]) / (high - low) == pytest.approx(2, rel=0.06)
    alone = interval(mean_of(base))
    assert clustered[1] - clustered[0] == pytest.approx(alone[1] - alone[0], rel=0.06)


def test_clusters_of_one_are_no_clusters() -> None:
    statistic = mean_of(outcomes(100))
    order = np.random.default_rng(0).permutation(100) * 7
    assert interval(statistic, clusters=order) == interval(statistic)


def test_an_interval_covers_what_it_should() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for i in range(300):
        low, high = interval(mean_of(rng.random(200) < 0.4), resamples=1000, seed=i)
        hits += low <= 0.4 <= high
    assert 0.90 <= hits / 300 <= 0.99


def test_as_wide_as_the_normal_approximation() -> None:
    values = outcomes(5000)
    low, high = interval(mean_of(values))
    error = math.sqrt(values.mean() * (1 - values.mean()) / 5000)
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.1 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.1 * error)


def test_the_seed_decides_and_the_processors_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    statistic = standard_deviation(np.random.default_rng(0).normal(size=3000))
    first = replicates(statistic, resamples=2000, seed=3)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    np.testing.assert_allclose(replicates(statistic, resamples=2000, seed=3), first, rtol=1e-12)
    assert not np.allclose(replicates(statistic, resamples=2000, seed=4), first)


def test_together_as_alone() -> None:
    rng = np.random.default_rng(0)
    x, hits = rng.normal(size=800), outcomes(800)
    mixed = [mean_of(hits), mean_of(x), standard_deviation(x), macro_mean(hits, np.arange(800) % 3)]
    for clusters in (None, np.arange(800) // 2):
        together = intervals(mixed, clusters=clusters)
        for statistic, (low, high) in zip(mixed, together, strict=True):
            alone = interval(statistic, clusters=clusters)
            assert low == pytest.approx(alone[0], abs=0.06 * (alone[1] - alone[0]))
            assert high == pytest.approx(alone[1], abs=0.06 * (alone[1] - alone[0]))


def test_statistics_that_together_have_many_types_are_drawn_alone() -> None:
    rng = np.random.default_rng(0)
    # Each has 20 types among 500 units; together nearly every unit is its own.
    many = [mean_of(rng.integers(0, 20, size=500).astype(float)) for _ in range(4)]
    assert bootstrap._batches(many) == [[0], [1], [2], [3]]
    assert intervals(many) == [interval(statistic) for statistic in many]
    assert bootstrap._batches([*many, mean_of(rng.normal(size=500))])[-1] == [4]
    assert bootstrap._batches([mean_of(outcomes(500)), many[0]]) == [[0], [1]]


def test_very_large_sets_take_fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "MOST_DRAWS", 3_000_000)
    monkeypatch.setattr(bootstrap, "find_limit", lambda *_: None)
    x = np.random.default_rng(0).normal(size=2000)
    assert len(replicates(mean_of(x))) == 1500
    assert len(replicates(mean_of(np.tile(x, 10)[:15000] + np.arange(15000)))) == 1000
    assert len(replicates(mean_of(x), resamples=50)) == 50
    assert len(replicates(mean_of(outcomes(2000)))) == 10_000


def test_nothing_to_resample() -> None:
    assert all(math.isnan(end) for end in interval(mean_of([])))
    assert all(math.isnan(end) for end in interval(macro_mean([1.0], [-1])))
    assert all(math.isnan(end) for end in interval(mean_of([2.0])))
    assert all(math.isnan(end) for end in percentile_interval(np.full(3, np.nan)))
    assert intervals([]) == []


def test_bad_clusters_are_refused() -> None:
    for clusters in (np.array([0, -1, 2]), np.array([0, 1]), np.array([0.0, 1.0, 2.0])):
        with pytest.raises(InputError, match="clusters"):
            interval(mean_of([1.0, 0.0, 1.0]), clusters=clusters)
    with pytest.raises(InputError, match="resamples"):
        replicates(mean_of([1.0]), resamples=0)


@settings(max_examples=25)
@given(st.integers(2, 60), st.integers(0, 2**32 - 1))
def test_replicates_stay_within_the_values(k: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=k)
    found = replicates(mean_of(values), resamples=200, seed=seed)
    assert found.min() >= values.min() - 1e-9
    assert found.max() <= values.max() + 1e-9


@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_units_add_up_to_the_examples(k: int, size: int, seed: int) -> None:
    """Whatever types and clusters are found, all units together are all examples together."""
    rng = np.random.default_rng(seed)
    statistic = macro_mean(rng.integers(0, 3, size=k).astype(float), rng.integers(-1, 3, size=k))
    for clusters in (None, rng.integers(0, size, size=k)):
        units = find_units(join([statistic]), clusters)
        np.testing.assert_allclose(units.counts @ units.rows, statistic.totals())
        assert units.size == (k if clusters is None else len(set(clusters.tolist())))


def by_pairs(scores: np.ndarray) -> float:
    captions, foils = scores[:, 0], scores[:, 1]
    won = captions[:, None] > foils[None]
    tied = captions[:, None] == foils[None]
    return float((won + tied / 2).mean())


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 2), min_size=1, max_size=30))
def test_auroc_against_all_pairs(rows: list[tuple[int, int]]) -> None:
    scores = np.array(rows, dtype=float)
    assert auroc(scores) == pytest.approx(by_pairs(scores))
    mann_whitney = stats.mannwhitneyu(scores[:, 0], scores[:, 1]).statistic / len(rows) ** 2
    assert auroc(scores) == pytest.approx(mann_whitney)


@given(st.integers(0, 2**32 - 1))
def test_auroc_what_it_does_not_depend_on(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(30, 2))
    assert auroc(np.exp(scores)) == pytest.approx(auroc(scores))
    assert auroc(scores[:, ::-1]) == pytest.approx(1 - auroc(scores))


@pytest.mark.parametrize("size", [1, 4])
def test_auroc_interval_by_hand(size: int) -> None:
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


def test_auroc_groups_count_alike() -> None:
    scores = np.random.default_rng(0).normal(size=(60, 2))
    groups = np.array([0] * 40 + [3] * 10 + [-1] * 10)
    expected = (by_pairs(scores[:40]) + by_pairs(scores[40:50])) / 2
    assert auroc(scores, groups) == pytest.approx(expected)
    low, high = auroc_interval(scores, groups, resamples=2000)
    assert low < expected < high
    # The smaller group decides the width.
    alone = auroc_interval(scores[40:50], resamples=2000)
    assert high - low == pytest.approx((alone[1] - alone[0]) / 2, rel=0.25)


def test_auroc_nothing_and_nonsense() -> None:
    assert math.isnan(auroc(np.zeros((0, 2))))
    assert all(math.isnan(end) for end in auroc_interval(np.zeros((0, 2))))
    assert math.isnan(auroc(np.zeros((2, 2)), [-1, -1]))
    with pytest.raises(InputError, match="group codes"):
        auroc(np.zeros((2, 2)), [0])
    with pytest.raises(InputError, match="shape"):
        auroc(np.zeros((2, 3)))


def test_tasks_give_the_same_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    hits, values = rng.integers(0, 2, (3, 400)), rng.normal(size=400)
    statistics = [*(mean_of(row) for row in hits), mean_of(values), mean_of(np.ones(400))]
    clusters = np.arange(400) // 3
    alone = intervals(statistics, clusters=clusters, resamples=500)
    monkeypatch.setattr(bootstrap, "MANY_EXAMPLES", 1)
    assert intervals(statistics, clusters=clusters, resamples=500) == alone
    assert intervals([]) == []

    def fail() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bootstrap.run_tasks([lambda: 1, fail], 1)
    assert bootstrap.run_tasks([lambda: 1, lambda: 2], 1) == [1, 2]
