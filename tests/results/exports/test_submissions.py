"""Submissions to CIRR, CIRCO and EqBen: ranked images and scores, as the servers read them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import contrapose as cp
from contrapose.data import ComposedQuery, ComposedSet, in_memory_benchmark
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from tests.composed import write_cirr
from tests.conftest import Cli
from tests.data.benchmarks.test_eqben import write_submission
from tests.fakes import Fake, patch


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_cirr(tmp_path, queries=6)
    return tmp_path


def test_a_cirr_submission_measures_as_its_run(root: Path, tmp_path: Path) -> None:
    run = cp.evaluate(Fake(), on="cirr", root=root, score="itc:sum", cache=False, resamples=100)
    assert isinstance(run, cp.Run)
    files = cp.export(run, out=tmp_path / "out", format="cirr")
    assert [file.name for file in files] == ["export.json", "recall.json", "recall_subset.json"]
    recall = json.loads((tmp_path / "out" / "recall.json").read_text())
    assert (recall.pop("version"), recall.pop("metric")) == ("rc2", "recall")
    assert set(recall) == {str(100 + q) for q in range(6)}
    assert {len(names) for names in recall.values()} == {11}  # all images but the reference
    assert all(f"dev-{2 * (int(query) - 100)}" not in names for query, names in recall.items())
    subset = json.loads((tmp_path / "out" / "recall_subset.json").read_text())
    assert subset.pop("metric") == "recall_subset"
    assert all(len(names) == 3 for query, names in subset.items() if query != "version")
    again = cp.measure(tmp_path / "out", "cirr", root=root, resamples=100)
    assert again.metrics == run.metrics


def test_several_runs_have_a_folder_each(root: Path, tmp_path: Path) -> None:
    scores = ["itc:sum", "itc:text"]
    runs = cp.evaluate(Fake(), on="cirr", root=root, score=scores, cache=False, resamples=100)
    files = cp.export(runs, out=tmp_path / "out", format="cirr")
    folders = {file.parent.name for file in files if file.name != "export.json"}
    assert folders == {"cirr_fake_itc_sum", "cirr_fake_itc_text"}


def test_a_test_split_has_no_metrics_and_a_submission(tmp_path: Path) -> None:
    write_cirr(tmp_path, queries=6, split="test1")
    run = cp.evaluate(
        Fake(), on="cirr-test", root=tmp_path, score="itc:sum", cache=False, resamples=100
    )
    assert isinstance(run, cp.Run)
    assert run.metrics == {}
    assert any("evaluation server" in note for note in run.results.notes)
    run.save(tmp_path / "run")
    assert len(cp.export(tmp_path / "run", out=tmp_path / "out", format="cirr")) == 3


def circo(queries: int = 2) -> cp.Run:
    data = ComposedSet(
        images=tuple(patch(i) for i in range(5)),
        galleries=(tuple(range(5)),),
        queries=tuple(ComposedQuery(str(q), q, ("a dog",), (3,)) for q in range(queries)),
        precision_at=(5,),
    )
    run = cp.evaluate(
        Fake(), on=in_memory_benchmark(data, "circo"), score="itc:sum", cache=False, resamples=100
    )
    assert isinstance(run, cp.Run)
    return run


def test_a_circo_submission_holds_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = circo()
    assert run.record.scores is not None
    names = run.record.scores["name"]
    run.record.scores["name"] = [name.removeprefix("patch ") for name in names]
    cp.export(run, out=tmp_path / "out", format="circo")
    lists = json.loads((tmp_path / "out" / "submission.json").read_text())
    assert set(lists) == {"0", "1"}
    assert sorted(lists["0"]) == [1, 2, 3, 4]


def test_what_cannot_be_submitted_is_refused(root: Path, tmp_path: Path) -> None:
    run = cp.evaluate(Fake(), on="cirr", root=root, score="itc:sum", cache=False, resamples=100)
    with pytest.raises(InputError, match="no run of circo"):
        cp.export(run, out=tmp_path / "out", format="circo")
    (root / "dev" / "dev-0.png").unlink()
    run = cp.evaluate(Fake(), on="cirr", root=root, score="itc:sum", cache=False, resamples=100)
    with pytest.raises(InputError, match="skipped 1 queries"):
        cp.export(run, out=tmp_path / "out", format="cirr")
    files = find_matrix(root)
    given = cp.measure(files, "cirr", root=root, resamples=100)
    with pytest.raises(InputError, match="no ranked images"):
        cp.export(given, out=tmp_path / "out", format="cirr")
    assert not (tmp_path / "out").exists()


def find_matrix(root: Path) -> list[list[float]]:
    from contrapose.data import find_single_benchmark

    data = find_single_benchmark("cirr").read(root, StrictProblems())
    assert isinstance(data, ComposedSet)
    return [[float(i * q % 7) for i in range(len(data.images))] for q in range(len(data.queries))]


@pytest.fixture
def eqben(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    root = tmp_path / "data" / "eqben"
    pairs = write_submission(root, {"ag": 4, "sd": 6}, rng)
    for example, image, _ in pairs:
        subset, number = example.split("/")
        file = root / "images" / f"eqben{subset}" / f"{number}_{image}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(file)
    return root


def test_an_eqben_submission_measures_as_its_run(eqben: Path, tmp_path: Path) -> None:
    run = cp.evaluate(Fake(), on="eqben", root=eqben.parent, cache=False, score="itc")
    assert isinstance(run, cp.Run)
    files = cp.export(run, out=tmp_path / "out", format="eqben")
    assert [file.name for file in files] == ["export.json", "prediction.npy"]
    scores = np.load(tmp_path / "out" / "prediction.npy")
    assert scores.shape == (40,)
    again = cp.measure(tmp_path / "out" / "prediction.npy", "eqben", root=eqben)
    assert again.metrics == run.metrics
    assert 0 < run.metrics["text"].value < 1


def test_an_eqben_submission_has_every_pair(eqben: Path, tmp_path: Path) -> None:
    run = cp.evaluate(Fake(), on="eqben", root=eqben, limit=2, cache=False, score="itc")
    with pytest.raises(InputError, match="every pair"):
        cp.export(run, out=tmp_path / "out", format="eqben")
    assert not (tmp_path / "out").exists()


def test_the_command_takes_the_folder_of_the_list(eqben: Path, tmp_path: Path, cli: Cli) -> None:
    run = cp.evaluate(Fake(), on="eqben", root=eqben, cache=False, score="itc")
    run.save(tmp_path / "run")
    moved = eqben.rename(tmp_path / "moved")
    command = ("export", tmp_path / "run", "--format", "eqben", "--out", tmp_path / "out")
    assert "not a folder" in cli(*command).refused()
    assert cli(*command, "--root", moved).status == 0
    assert np.load(tmp_path / "out" / "prediction.npy").shape == (40,)
