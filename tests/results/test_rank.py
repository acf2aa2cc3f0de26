"""Rankings: parity with `compare`, permutations, ties, several benchmarks, names."""

from __future__ import annotations

import json
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import contrapose as cp
from contrapose.errors import InputError
from contrapose.metrics import holm
from contrapose.results.measures import Measure, Measurements
from contrapose.results.rank import OVERALL, rank_entries
from contrapose.results.rank_runs import RankEntry, name_models
from contrapose.results.rankings import Ranking


def outcomes(
    right: np.ndarray, *, clusters: np.ndarray | None = None, start: int = 0
) -> Measurements:
    """Measures of a benchmark whose only metric is accuracy."""
    size = len(right)
    measure = Measure(
        values=right.astype(np.float64),
        where=np.ones(size, dtype=np.bool_),
        ties=np.zeros(size, dtype=np.bool_),
        chance=np.full(size, 0.5),
    )
    ids = tuple(str(i) for i in range(start, start + size))
    return Measurements(ids, {}, clusters, {"accuracy": measure})


def entry(name: str, measured: Measurements, benchmark: str = "memory", **more: str) -> RankEntry:
    fields = {"model": name, "score": "", "source": "", "protocol": "strict", **more}
    return RankEntry(name="", benchmark=benchmark, measured=measured, **fields)


def make_entries(count: int, seed: int, *, clustered: bool, size: int = 60) -> list[RankEntry]:
    random = np.random.default_rng(seed)
    clusters = random.integers(0, 25, size) if clustered else None
    base = random.random(size)
    return [
        entry(f"m{i}", outcomes(base + 0.2 * random.random(size) < rate, clusters=clusters))
        for i, rate in enumerate(random.random(count) * 0.8 + 0.2)
    ]


def content(ranking: Ranking) -> object:
    return ranking.model_dump(exclude={"notes"})


@settings(max_examples=15)
@given(st.integers(2, 4), st.integers(0, 1000), st.booleans())
def test_permutation_changes_nothing(count: int, seed: int, clustered: bool) -> None:
    entries = make_entries(count, seed, clustered=clustered)
    first = content(rank_entries(entries, resamples=100))
    for order in list(permutations(entries))[:6]:
        assert content(rank_entries(order, resamples=100)) == first


@settings(max_examples=15)
@given(st.integers(2, 4), st.integers(0, 1000), st.booleans())
def test_one_model_twice_is_in_one_tier(count: int, seed: int, clustered: bool) -> None:
    entries = make_entries(count, seed, clustered=clustered)
    twin = entry("twin", entries[0].measured)
    (ranking,) = rank_entries([*entries, twin], resamples=100).rankings
    by_name = {model.name: model for model in ranking.models}
    assert by_name["twin"].tier == by_name["m0"].tier
    assert by_name["twin"].rank == by_name["m0"].rank
    assert by_name["twin"].value == by_name["m0"].value
    (pair,) = (pair for pair in ranking.pairs if {pair.a, pair.b} == {"m0", "twin"})
    assert pair.noise
    assert pair.change.p == 1
    assert any({"m0", "twin"} <= set(group) for group in ranking.groups)


@pytest.mark.parametrize("scores", ["scores", "outcomes"])
def test_pairs_are_those_of_compare(scores: str) -> None:
    """Differences, intervals, tests and p-values are compare's; Holm counts all pairs."""
    random = np.random.default_rng(1)
    base = random.normal(size=(400, 2, 2))
    runs = {
        f"run{i}": cp.measure(
            base + random.normal(size=base.shape) + 0.2 * i * np.eye(2), "winoground", resamples=100
        )
        for i in range(4)
    }
    metric = "group" if scores == "outcomes" else "equivariance_text_std"
    (ranking,) = cp.rank(runs, metric=metric, resamples=300).rankings
    assert len(ranking.pairs) == 6
    direct = []
    for pair in ranking.pairs:
        alone = cp.compare(runs[pair.a], runs[pair.b], metric=metric, resamples=300)
        change = alone.metrics[metric]
        direct.append(change)
        fields = {"p_holm", "verdict"}
        assert pair.change.model_dump(exclude=fields) == change.model_dump(exclude=fields)
    adjusted = holm([change.p for change in direct])
    assert [pair.change.p_holm for pair in ranking.pairs] == adjusted.tolist()
    for pair in ranking.pairs:
        assert pair.noise == (pair.change.p_holm >= 0.05 or pair.change.difference == 0)
    values = [model.value for model in ranking.models]
    assert values == sorted(values, reverse=metric == "group")


def test_two_runs_give_compares_verdict() -> None:
    a, b = make_entries(2, 5, clustered=False, size=200)
    (ranking,) = rank_entries([a, b]).rankings
    assert ranking.pairs[0].change.p == ranking.pairs[0].change.p_holm
    tiers = [model.tier for model in ranking.models]
    assert tiers == ([1, 1] if ranking.pairs[0].noise else [1, 2])


def test_all_models_alike_share_the_first_tier() -> None:
    same = outcomes(np.arange(50) % 2 == 0)
    (ranking,) = rank_entries([entry(name, same) for name in "abc"], resamples=100).rankings
    assert [(model.rank, model.tier) for model in ranking.models] == [(1, 1)] * 3
    assert ranking.groups == (("a", "b", "c"),)


def test_several_benchmarks_have_a_mean() -> None:
    random = np.random.default_rng(0)
    entries = []
    for name, rate in (("weak", 0.4), ("strong", 0.8)):
        for benchmark, size in (("one", 300), ("two", 100)):
            right = outcomes(random.random(size) < rate)
            entries.append(entry(name, right, benchmark))
    ranking = rank_entries(entries, resamples=500)
    assert [one.benchmark for one in ranking.rankings] == [OVERALL, "one", "two"]
    mean, one, two = ranking.rankings
    assert ranking.tests == 3
    assert mean.n == 400
    for model in mean.models:
        parts = [m.value for r in (one, two) for m in r.models if m.name == model.name]
        assert model.value == pytest.approx(np.mean(parts))
        assert model.ci95 is not None
        assert model.ci95[0] < model.value < model.ci95[1]
    assert [model.tier for model in mean.models] == [1, 2]
    assert mean.pairs[0].change.test == "paired-bootstrap"


def test_other_benchmarks_or_examples_need_common() -> None:
    right = np.arange(40) % 3 > 0
    a, b = entry("a", outcomes(right)), entry("b", outcomes(~right, start=10))
    with pytest.raises(InputError, match=r"different examples.*30.*common"):
        rank_entries([a, b])
    ranking = rank_entries([a, b], common=True, resamples=100)
    assert ranking.rankings[0].n == 30
    assert any("30 examples" in note for note in ranking.notes)
    more = entry("a", outcomes(right), "other")
    b = entry("b", outcomes(~right))
    with pytest.raises(InputError, match="b has no run on other"):
        rank_entries([a, b, more])
    ranking = rank_entries([a, b, more], common=True, resamples=100)
    assert [one.benchmark for one in ranking.rankings] == ["memory"]
    with pytest.raises(InputError, match="no benchmark in common"):
        rank_entries([more, b], common=True)
    with pytest.raises(InputError, match="no example in common"):
        rank_entries([a, entry("c", outcomes(right, start=100))], common=True)
    with pytest.raises(InputError, match="at least two models"):
        rank_entries([a, more])


def test_order_of_examples_does_not_matter() -> None:
    a, b = make_entries(2, 3, clustered=True)
    turned = b.measured.take(np.arange(len(b.measured))[::-1])
    assert content(rank_entries([a, entry("m1", turned)], resamples=100)) == content(
        rank_entries([a, b], resamples=100)
    )


def test_clusters_of_one_run_count_for_all() -> None:
    random = np.random.default_rng(2)
    rights = [random.random(100) < rate for rate in (0.3, 0.5, 0.7)]
    clusters = np.arange(100) // 4
    entries = [
        entry(f"m{i}", outcomes(right, clusters=clusters if i == 1 else None))
        for i, right in enumerate(rights)
    ]
    (ranking,) = rank_entries(entries, resamples=100).rankings
    assert {pair.change.test for pair in ranking.pairs} == {"paired-bootstrap"}


def test_too_few_examples_make_no_tiers() -> None:
    a, b = (entry(name, outcomes(np.full(6, name == "a"))) for name in "ab")
    (ranking,) = rank_entries([a, b], resamples=100).rankings
    assert [model.tier for model in ranking.models] == [1, 1]
    assert ranking.pairs[0].change.test == "too few"


def test_metrics_that_give_no_ranking_are_refused() -> None:
    entries = make_entries(2, 0, clustered=False)
    with pytest.raises(InputError, match=r"'nothing'.*accuracy"):
        rank_entries(entries, names=["nothing"])


def test_names_tell_runs_apart() -> None:
    right = outcomes(np.arange(20) % 2 == 0)
    plain = [entry("clip", right, score="itc"), entry("blip", right, score="itm")]
    assert set(name_models(plain)) == {"clip", "blip"}
    scores = [entry("blip", right, score=score) for score in ("itc", "itm")]
    assert set(name_models(scores)) == {"blip · itc", "blip · itm"}
    paths = [entry("clip", right, score="itc", source=source) for source in ("r/a", "r/b")]
    assert set(name_models(paths)) == {"clip (r/a)", "clip (r/b)"}
    memory = [entry("array", right) for _ in range(3)]
    assert set(name_models(memory)) == {"array", "array #2", "array #3"}
    benchmarks = [entry("clip", right, benchmark) for benchmark in ("one", "two")]
    assert list(map(list, name_models(benchmarks).values())) == [["one", "two"]]


def test_groups_cover_what_does_not_differ() -> None:
    (ranking,) = rank_entries(make_entries(6, 11, clustered=False), resamples=100).rankings
    noise = {frozenset((pair.a, pair.b)) for pair in ranking.pairs if pair.noise}
    covered = {frozenset(two) for group in ranking.groups for two in combinations(group, 2)}
    assert noise == covered


def test_a_metric_that_is_no_mean_over_examples_is_ranked_by(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 2
    files = []
    for name, noise in (("sharp", 0.3), ("blunt", 0.6), ("noise", 9.0)):
        path = tmp_path / f"{name}.jsonl"
        scores = np.clip(labels + rng.normal(0, noise, 300), -5, 5)
        rows = zip(labels.tolist(), scores.tolist(), strict=True)
        path.write_text(
            "\n".join(
                json.dumps({"id": i, "label": label, "score": score})
                for i, (label, score) in enumerate(rows)
            )
        )
        files.append(path)
    ranking = cp.rank(files, on="vsr", metric="auroc", common=True, resamples=200).rankings[0]
    assert [(model.name, model.tier) for model in ranking.models] == [
        ("sharp", 1),
        ("blunt", 2),
        ("noise", 3),
    ]
    assert ranking.share
    runs = [cp.measure(path, "vsr", partial=True, resamples=200) for path in files]
    assert [model.value for model in ranking.models] == [run.metrics["auroc"].value for run in runs]
    assert [model.ci95 for model in ranking.models] == [run.metrics["auroc"].ci95 for run in runs]
    change = cp.compare(files[0], files[1], on="vsr", metric="auroc", partial=True, resamples=200)
    assert ranking.pairs[0].change.p == change.metrics["auroc"].p
    assert {pair.change.test for pair in ranking.pairs} == {"paired-bootstrap"}
