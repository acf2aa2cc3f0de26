"""Runs: saved and read back the same, as frames, tables and plots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import contrapose as cp
from contrapose.errors import InputError


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> cp.Runs:
    cache = tmp_path_factory.mktemp("cache")
    made = cp.evaluate(
        ["tiny", "tiny-clip"], on=["scenes/replace-color", "scenes/location"],
        limit=4, prior="noise:1", cache=cache, resamples=100,
    )  # fmt: skip
    assert isinstance(made, cp.Runs)
    return made


def test_save_and_load(runs: cp.Runs, tmp_path: Path) -> None:
    runs.save(tmp_path / "a")
    again = cp.load_runs(tmp_path / "a")
    assert again == runs
    for run, loaded in zip(runs, again, strict=True):
        assert loaded.results == run.results
        assert loaded.record.measured.tags == run.record.measured.tags
        for name, measure in run.record.measured.measures.items():
            read = loaded.record.measured.measures[name]
            assert np.array_equal(read.values, measure.values)
            assert np.array_equal(read.where, measure.where)
        before, after = run.record.scores, loaded.record.scores
        assert before is not None
        assert after is not None
        assert list(before) == list(after)
        assert all(np.array_equal(before[key], after[key]) for key in before if key != "logprobs")
        if "logprobs" in before:
            assert np.array_equal(before["logprobs"].values, after["logprobs"].values)
    again.save(tmp_path / "b")
    for name in ("results.json", "spec.json", "scores.parquet", "examples.parquet"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_one_of_several(runs: cp.Runs, tmp_path: Path) -> None:
    runs.save(tmp_path / "a")
    with pytest.raises(InputError, match="several runs"):
        cp.load_run(tmp_path / "a")
    chosen = cp.load_run(f"{tmp_path / 'a'}@tiny,lm-alpha,scenes/location")
    assert chosen == runs.choose("tiny", "lm-alpha", "scenes/location")
    with pytest.raises(InputError, match="0 runs"):
        runs.choose("tiny-clip", "lm")
    chosen.save(tmp_path / "one")
    assert cp.load_run(tmp_path / "one") == chosen


def test_a_measured_run(tmp_path: Path) -> None:
    run = cp.measure(np.random.default_rng(0).normal(size=(400, 2, 2)), "winoground", resamples=100)
    run.save(tmp_path / "a")
    again = cp.load_run(tmp_path / "a")
    assert again == run
    assert again.results.scores == "ndarray of 400 × 2 × 2"
    with pytest.raises(InputError, match="not empty"):
        run.save(tmp_path / "a")
    run.save(tmp_path / "a", overwrite=True)


def test_frames(runs: cp.Runs) -> None:
    metrics = runs[0].to_frame()
    row = metrics[(metrics.part == "all") & (metrics.metric == "accuracy")].iloc[0]
    assert row["value"] == runs[0].metrics["accuracy"].value
    assert (row["low"], row["high"]) == runs[0].metrics["accuracy"].ci95
    rows = runs.to_frame("examples")
    assert len(rows) == sum(run.results.examples for run in runs)
    assert rows.accuracy.dropna().isin((0, 1)).all()
    with pytest.raises(InputError, match="metrics or of examples"):
        runs.to_frame("words")  # type: ignore[arg-type]


def test_examples(runs: cp.Runs) -> None:
    run = runs.choose("tiny-clip", "scenes/location")
    row = run.examples()[0]
    assert np.shape(row["scores"]) == (2, 2)
    assert len(row["captions"]) == 2
    assert row["outcomes"]["group"] in (0.0, 1.0)
    assert len(runs.examples()) == sum(run.results.examples for run in runs)


def test_notebooks(runs: cp.Runs, tmp_path: Path) -> None:
    page = runs._repr_html_()
    assert page.count("<table>") >= 2
    assert "tiny-clip" in page
    plot = runs[:2].plot()
    assert plot._repr_svg_().startswith("<svg")
    assert "<style>" in plot.svg
    plot.save(tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text(encoding="utf-8") == plot.svg + "\n"
    assert "tiny · itc" in repr(runs)


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        cp.load_run(tmp_path / "none")
    with pytest.raises(InputError, match="not a run folder"):
        cp.load_run(tmp_path)
