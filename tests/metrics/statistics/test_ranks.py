"""Rank statistics of very many examples: projections against the exact bootstrap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from contrapose.metrics import (
    FloatArray,
    RankStatistic,
    auroc_statistic,
    joint_rank_replicates,
    kendall_statistic,
    pairwise_statistic,
    rank_interval,
    rank_replicates,
    spearman_statistic,
)
from contrapose.metrics import ratings as rating_metrics
from contrapose.metrics.statistics import limit, ranks
from contrapose.metrics.statistics.ranks import lift, mean_of_ranks

SIZE = 600


def sample(seed: int = 0, *, ties: bool = True) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    people = rng.integers(1, 6, SIZE).astype(np.float64)
    scores = people + rng.normal(0, 2, SIZE)
    return (np.round(scores, 1) if ties else scores), people


def area(scores: FloatArray, people: FloatArray) -> RankStatistic:
    high = people > 3
    return auroc_statistic(np.stack([scores, scores], axis=1), present=np.stack([high, ~high], 1))


def grouped_area(scores: FloatArray, people: FloatArray) -> RankStatistic:
    return auroc_statistic(np.stack([scores, people], axis=1), np.arange(SIZE) % 3 - 1)


def part_mean(scores: FloatArray, people: FloatArray) -> RankStatistic:
    halves = np.arange(SIZE // 2), np.arange(SIZE // 2, SIZE)
    return mean_of_ranks(
        [lift(kendall_statistic(scores[half], people[half]), half, SIZE) for half in halves]
    )


KINDS: dict[str, Callable[[FloatArray, FloatArray], RankStatistic]] = {
    "area": area,
    "area of groups": grouped_area,
    "spearman": spearman_statistic,
    "kendall": kendall_statistic,
    "pairwise": lambda scores, people: pairwise_statistic(scores, people, 0.4),
    "mean of parts": part_mean,
}


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hundred examples count as very many."""
    monkeypatch.setattr(ranks, "LIMIT_FROM", 100)
    monkeypatch.setattr(limit, "LIMIT_FROM", 100)
    monkeypatch.setattr(ranks, "MOST_RESIDUAL", 0.15)
    monkeypatch.setattr(rating_metrics, "MOST_UNITS", 50)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clusters", [None, np.arange(SIZE) // 3])
def test_projections_are_resampled_as_the_statistics(
    kind: str, clusters: np.ndarray | None, request: pytest.FixtureRequest
) -> None:
    exact = rank_replicates(KINDS[kind](*sample()), clusters=clusters, resamples=1_000)
    request.getfixturevalue("large")
    statistic = KINDS[kind](*sample())
    assert statistic.linear is not None
    assert statistic.linear().value() == pytest.approx(statistic.value(), abs=1e-12)
    drawn = rank_replicates(statistic, clusters=clusters)
    assert len(drawn) == 10_000
    error = exact.std()
    assert drawn.std() / error == pytest.approx(1, abs=0.12)
    for q in (0.025, 0.5, 0.975):
        assert abs(np.quantile(drawn, q) - np.quantile(exact, q)) < 0.4 * error
    low, high = rank_interval(statistic, clusters=clusters)
    assert low < statistic.value() < high


@pytest.mark.parametrize("kind", KINDS)
def test_projections_are_near_in_every_resample(kind: str) -> None:
    """The difference from the statistic itself is a small part of how much resamples vary."""
    statistic = KINDS[kind](*sample(ties=False))
    assert statistic.linear is not None
    linear = statistic.linear()
    counts = np.random.default_rng(0).multinomial(SIZE, np.full(SIZE, 1 / SIZE), size=12) * 1.0
    exact = statistic.bind(np.arange(SIZE), SIZE)(counts)
    projected = linear.formula(counts @ linear.columns)
    assert np.sqrt(((exact - projected) ** 2).mean()) < 0.16 * projected.std()


@pytest.mark.usefixtures("large")
def test_an_area_with_few_inversions_is_drawn() -> None:
    """Where single pairs decide, the statistic is not linear, and its units are drawn."""
    scores = np.stack([np.arange(400.0) + 398.5, np.arange(400.0)], axis=1)
    statistic = auroc_statistic(scores)
    assert 0 < 1 - statistic.value() < 1e-4
    assert ranks._find_projection(statistic, None, 400, 0) is None
    assert ranks._find_projection(area(*sample()), None, SIZE, 0) is not None
    assert rank_interval(statistic, resamples=300)[1] <= 1


@pytest.mark.usefixtures("large")
def test_two_runs_are_drawn_together() -> None:
    """Differences vary less than their parts: both runs have the same resamples."""
    scores, people = sample()
    near = scores + np.random.default_rng(5).normal(0, 0.3, SIZE)
    for build in (area, kendall_statistic, spearman_statistic):
        first, second = joint_rank_replicates([build(scores, people), build(near, people)])
        assert (second - first).std() < 0.4 * first.std()
        same, again = joint_rank_replicates([build(scores, people), build(scores, people)])
        np.testing.assert_array_equal(same, again)


def test_fewer_examples_are_drawn_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    statistic = area(*sample())
    before = rank_replicates(statistic, resamples=50)
    monkeypatch.setattr(ranks, "_find_projection", lambda *_: None)
    np.testing.assert_array_equal(rank_replicates(statistic, resamples=50), before)
    assert joint_rank_replicates([statistic], clusters=np.arange(SIZE) % 5)[0].size == 0
