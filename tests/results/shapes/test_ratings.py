"""Ratings: correlations, prompts as clusters, and scores that do not vary."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

import contrapose as cp
from contrapose.data import ImageRef
from contrapose.errors import InputError
from contrapose.metrics import ratings, tie_thresholds
from contrapose.metrics.statistics import ranks


def rows(size: int = 60, prompts: int = 20) -> dict[str, dict[str, Any]]:
    """Rows of a file with two scores: one that follows the ratings, one that does not."""
    return {
        f"{i}": {
            "prompt": f"p{i % prompts}",
            "human_scores": [i % 5 + 1, (i * 7) % 5 + 1],
            "good": (i % 5) + ((i * 13) % 11) / 7,
            "bad": ((i * 17) % 23) / 7,
        }
        for i in range(size)
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rated.json"
    path.write_text(json.dumps(rows()))
    return path


def measure(path: Path, column: str, **options: Any) -> cp.Run:
    options = {"partial": True, "resamples": 200, **options}
    return cp.measure(f"{path}@{column}", "tifa160", **options)


def test_metrics_are_those_of_scipy(file: Path) -> None:
    run = measure(file, "good")
    people = [sum(row["human_scores"]) / 2 for row in rows().values()]
    scores = [row["good"] for row in rows().values()]
    for name, function in (
        ("pearson", stats.pearsonr),
        ("spearman", stats.spearmanr),
        ("kendall", stats.kendalltau),
    ):
        value = run.metrics[name]
        assert value.value == pytest.approx(function(scores, people).statistic)
        assert value.ci95 is not None
        assert value.ci95[0] < value.value < value.ci95[1]
        assert (value.chance, value.n) == (None, 60)
    assert run.results.clusters == 20
    assert any("mean of 2 people" in note for note in run.results.notes)
    official = measure(file, "good", protocol="official")
    assert (
        official.metrics["pairwise_accuracy"].value >= run.metrics["pairwise_accuracy"].value > 0.5
    )


def test_scores_that_do_not_vary_have_no_correlation(file: Path) -> None:
    content = {name: {**row, "flat": 0.5} for name, row in rows().items()}
    file.write_text(json.dumps(content))
    run = measure(file, "flat")
    assert set(run.metrics) == {"pairwise_accuracy"}
    assert any("not defined" in note for note in run.results.notes)
    with pytest.raises(InputError, match="kendall"):
        cp.compare(run, measure(file, "good"), metric="kendall", resamples=200)
    assert list(cp.compare(run, measure(file, "good"), resamples=200).metrics) == [
        "pairwise_accuracy"
    ]


def test_runs_are_compared_and_ranked_from_disk(file: Path, tmp_path: Path) -> None:
    cp.measure_columns(file, "tifa160", partial=True, resamples=200, out=tmp_path / "runs")
    good, bad = cp.load_runs(tmp_path / "runs")
    compared = cp.compare(bad, good, resamples=200)
    assert list(compared.metrics) == ["pearson", "spearman", "kendall", "pairwise_accuracy"]
    assert all(change.verdict == "better" for change in compared.metrics.values())
    assert {change.test for change in compared.metrics.values()} == {"paired-bootstrap"}
    again = cp.compare(f"{file}@bad", f"{file}@good", on="tifa160", partial=True, resamples=200)
    assert again.metrics == compared.metrics
    ranking = cp.rank(file, on="tifa160", common=True, resamples=200).rankings[0]
    assert [(model.name, model.tier) for model in ranking.models] == [("good", 1), ("bad", 2)]
    assert (ranking.metric, ranking.share) == ("kendall", False)
    assert ranking.models[0].value == good.metrics["kendall"].value
    assert (
        ranking.pairs[0].change.p
        == cp.compare(good, bad, metric="kendall", resamples=200).metrics["kendall"].p
    )


def test_ratings_of_two_levels_have_an_auroc() -> None:
    examples = [
        cp.Example(
            str(i),
            (ImageRef(f"{i}.png", Path(f"{i}.png")),),
            (f"caption {i // 2}",),
            ((True,),),
            {"rating": str(i % 2)},
        )
        for i in range(40)
    ]
    run = cp.measure([[[i % 2 + i / 30]] for i in range(40)], examples, resamples=200)
    wins = [(1 + i / 30 > j / 30) for i in range(1, 40, 2) for j in range(0, 40, 2)]
    assert run.metrics["auroc"].value == pytest.approx(sum(wins) / len(wins), abs=0.01)
    assert run.results.clusters == 20  # of the captions
    assert all(math.isfinite(value.value) for value in run.metrics.values())


def test_ratings_are_needed() -> None:
    example = cp.Example("0", (ImageRef("a", Path("a")),), ("a cat",), ((True,),), {"rating": "x"})
    with pytest.raises(InputError, match="not a number"):
        cp.measure([[[1.0]]], [example])
    with pytest.raises(InputError, match="root"):
        cp.measure([{"example": "0", "score": 1.0}], "tifa160", partial=True)


def test_a_file_with_several_scores(file: Path) -> None:
    with pytest.raises(InputError, match="good, bad"):
        cp.measure(file, "tifa160", partial=True)
    with pytest.raises(InputError, match="did you mean good"):
        measure(file, "goof")
    with pytest.raises(InputError, match="60"):
        measure(file, "good", partial=False)


def test_very_many_examples_have_every_metric(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above some numbers pairs are sampled and statistics are linear; both are set low here."""
    before = measure(file, "good", resamples=2000).metrics
    monkeypatch.setattr(tie_thresholds, "MOST_EXAMPLES", 10)
    monkeypatch.setattr(tie_thresholds, "MOST_LEVELS", 5)
    monkeypatch.setattr(tie_thresholds, "HELD_PAIRS", 100)
    monkeypatch.setattr(tie_thresholds, "SAMPLED_PAIRS", 4096)
    monkeypatch.setattr(ratings, "MOST_EXAMPLES", 10)
    monkeypatch.setattr(ranks, "MANY_EXAMPLES", 10)
    monkeypatch.setattr(ranks, "MOST_RESIDUAL", 1.0)
    tie_thresholds._known.clear()
    run = measure(file, "good", resamples=2000)
    assert set(run.metrics) == set(before)
    for name, value in run.metrics.items():
        assert value.ci95 is not None
        assert before[name].ci95 is not None
        assert value.value == pytest.approx(before[name].value, abs=0.05)
        assert value.ci95 == pytest.approx(before[name].ci95, abs=0.12)
    assert any("a sample of pairs of other prompts" in note for note in run.results.notes)
    official = measure(file, "good", protocol="official").results.notes
    assert any("a sample of these pairs" in note for note in official)
    compared = cp.compare(run, measure(file, "bad", resamples=2000), resamples=2000)
    assert compared.metrics["kendall"].difference < 0
    tie_thresholds._known.clear()
