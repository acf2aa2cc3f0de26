"""From a model to results: suites and single benchmarks, subsets, priors, runs on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from contrapose.data import registry
from contrapose.errors import InputError
from contrapose.results import (
    EvalRequest,
    Evaluation,
    compare_paths,
    evaluate_models,
    read_run,
    write_run,
)
from contrapose.scoring import Asking, Noise, ask_examples
from tests.fakes import Fake, Tower, made, pairs, patches


@pytest.fixture(autouse=True)
def _plugged(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"patches": patches(), "plain": made("plain", "pairs", "2 × 2", pairs())}
    monkeypatch.setattr(registry, "_plugins", lambda: found)


def request(*benchmarks: str, **options: object) -> EvalRequest:
    return EvalRequest(benchmarks or ("patches",), resamples=200, **options)  # type: ignore[arg-type]


def test_a_run_for_every_model_benchmark_and_score() -> None:
    runs = evaluate_models([Fake(), Tower()], request("patches", "plain"))
    names = [(run.results.model, run.results.benchmark, run.results.score) for run in runs]
    assert names == [
        *(("fake", "patches", score) for score in ("itc", "itm", "lm")),
        *(("fake", "plain", score) for score in ("itc", "itm", "lm")),
        ("tower", "patches", "itc"),
        ("tower", "plain", "itc"),
    ]


def test_a_suite_is_measured_part_by_part() -> None:
    (run,) = evaluate_models([Fake()], request(scores=("itc",)))
    results = run.results
    assert list(results.subsets) == ["pairs", "choices", "gallery", "edits"]
    assert set(results.subsets["pairs"]) >= {"text", "image", "group"}
    assert set(results.subsets["choices"]) == {"accuracy"}
    assert "mean_recall" in results.subsets["gallery"]
    assert "simat_n1" in results.subsets["edits"]
    assert list(results.metrics) == ["average"]
    average = results.metrics["average"]
    mains = [results.subsets["pairs"]["group"], results.subsets["choices"]["accuracy"]]
    assert average.value == pytest.approx(np.mean([main.value for main in mains]))
    assert average.chance == pytest.approx((1 / 6 + 1 / 3) / 2)
    assert average.n == 24
    low, high = average.ci95
    assert low <= average.value <= high
    scores = ask_examples(Asking(Fake()), "itc", pairs()).scores
    text = (scores[:, 0, 0] > scores[:, 0, 1]) & (scores[:, 1, 1] > scores[:, 1, 0])
    assert results.subsets["pairs"]["text"].value == pytest.approx(text.mean())


def test_parts_that_a_score_cannot_be_asked_of() -> None:
    (run,) = evaluate_models([Fake()], request(scores=("lm",)))
    assert list(run.results.subsets) == ["pairs", "choices"]
    assert any("gallery is not asked with lm" in note for note in run.results.notes)
    (named,) = evaluate_models([Fake()], request(scores=("lm",), subsets=("gallery",)))
    assert list(named.results.subsets) == ["gallery"]
    assert named.results.metrics == {}
    with pytest.raises(InputError, match="patches cannot be asked with itm: edits is not asked"):
        evaluate_models([Fake()], request(scores=("itm",), subsets=("edits",)))
    with pytest.raises(InputError, match="patches/edits cannot be asked with lm"):
        evaluate_models([Fake()], request("patches/edits", scores=("lm",)))


def test_one_part_by_its_full_name() -> None:
    (part,) = evaluate_models([Tower()], request("patches/pairs"))
    (plain,) = evaluate_models([Tower()], request("plain"))
    assert part.results.benchmark == "patches/pairs"
    assert part.results.metrics == plain.results.metrics


def test_the_prior_as_a_score_and_taken_out() -> None:
    runs = evaluate_models(
        [Fake()], request("plain", scores=("lm", "prior"), prior=Noise(2), alpha=0.0)
    )
    raw, debiased, blind = (run.results for run in runs)
    assert [run.results.score for run in runs] == ["lm", "lm-alpha", "prior"]
    assert debiased.alpha is not None
    assert debiased.metrics["text"].value == raw.metrics["text"].value
    # A score that does not see the image prefers the same caption under both.
    assert blind.metrics["text"].value == 0
    assert blind.metrics["image"].ties == 1
    suite = evaluate_models([Fake()], request(scores=("lm",), prior=Noise(2)))[1].results
    assert set(suite.part_alphas) == {"pairs", "choices"}


def test_limit_and_subsets() -> None:
    (run,) = evaluate_models([Tower()], request(limit=5))
    sizes = {name: max(m.n for m in part.values()) for name, part in run.results.subsets.items()}
    assert sizes == {"pairs": 5, "choices": 5, "gallery": 10, "edits": 5}
    for options, message in (
        ({"limit": 0}, "--limit must be at least 1"),
        ({"subsets": ("pears",)}, "no subset 'pears': did you mean pairs"),
        ({"scores": ("itk",)}, "no score 'itk'"),
        ({"scores": ("lm",)}, "tower cannot give 'lm'"),
    ):
        with pytest.raises(InputError, match=message):
            evaluate_models([Tower()], request(**options))
    with pytest.raises(InputError, match="plain has no subset 'x': there are pairs"):
        evaluate_models([Tower()], request("plain", subsets=("x",)))
    with pytest.raises(InputError, match="pass --root DIR, the folder of winoground"):
        evaluate_models([Tower()], request("winoground"))


def test_the_cache_serves_other_benchmarks_and_runs(tmp_path: Path) -> None:
    first = Fake()
    before = evaluate_models([first], request(cache=tmp_path))
    again = Fake()
    after = evaluate_models([again], request("patches", "plain", cache=tmp_path))
    assert not [*again.images, *again.texts, *again.pairs]
    assert [run.results for run in before] == [run.results for run in after[:3]]


def test_run_folders(tmp_path: Path) -> None:
    runs = evaluate_models([Fake(), Tower()], request("patches", "plain"))
    folder = tmp_path / "run"
    write_run(runs, folder)
    assert sorted(file.name for file in folder.iterdir()) == [
        "examples.parquet", "results.json", "scores.parquet", "spec.json",
    ]  # fmt: skip
    stored = Evaluation.model_validate_json((folder / "results.json").read_text())
    assert stored.runs == tuple(run.results for run in runs)
    scores = pq.read_table(folder / "scores.parquet")
    assert scores.column_names == [
        "model", "benchmark", "score", "example", "image", "text", "value", "match",
    ]  # fmt: skip
    rows = [
        row for row in scores.to_pylist() if (row["benchmark"], row["score"]) == ("plain", "lm")
    ]
    assert len(rows) == 48
    expected = ask_examples(Asking(Fake()), "lm", pairs()).scores
    for row in rows:
        k = int(row["example"].removeprefix("p"))
        assert row["value"] == expected[k, row["image"], row["text"]]
    for run in runs:
        results = run.results
        name, measured = read_run(
            folder, (results.model or "", results.benchmark, results.score or "")
        )
        assert name == results.benchmark
        assert measured.ids == run.measured.ids
        assert measured.tags == run.measured.tags
        assert list(measured.measures) == list(run.measured.measures)
        for each, measure in run.measured.measures.items():
            assert np.array_equal(measured.measures[each].values, measure.values * measure.where)
            assert (measured.measures[each].ties is None) == (measure.ties is None)
    with pytest.raises(
        InputError, match=r"holds several runs; pass .*@ and one of: fake,patches,itc"
    ):
        read_run(folder)
    with pytest.raises(InputError, match="holds no run of blip"):
        read_run(folder, ("blip",))


def test_runs_are_compared(tmp_path: Path) -> None:
    write_run(evaluate_models([Fake(), Tower()], request()), tmp_path / "run")
    found = compare_paths(tmp_path / "run@fake,itc", tmp_path / "run@tower", resamples=200)
    assert list(found.metrics) == ["average", "pairs/group", "choices/accuracy"]
    assert found.metrics["average"].difference == 0  # the two see alike in their vectors
    other = compare_paths(
        tmp_path / "run@fake,itc", tmp_path / "run@lm", resamples=200, partial=True
    )
    change = other.metrics["pairs/group"]
    assert change.n == 12
    assert change.test == "mcnemar-midp"
