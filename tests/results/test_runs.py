"""Run folders: what was written can be read, and nothing half-written stays."""

from __future__ import annotations

import errno
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import contrapose as cp
from contrapose.errors import InputError
from contrapose.results import (
    MetricsRequest,
    Results,
    RunRecord,
    measure_score_file,
    read_run,
    write_run,
)
from contrapose.results import runs as runs_module
from contrapose.results.runs import read_runs, split_choice


@pytest.fixture
def finished(tmp_path: Path) -> RunRecord:
    scores = np.random.default_rng(0).integers(0, 4, (400, 2, 2)).astype(float)
    np.save(tmp_path / "s.npy", scores)
    tags = {str(i): ["odd", "late"] if i % 2 else [] for i in range(400)}
    (tmp_path / "kind.json").write_text(json.dumps(tags))
    request = MetricsRequest(
        "winoground", tmp_path / "s.npy", tags=(("kind", tmp_path / "kind.json"),), resamples=100
    )
    return measure_score_file(request)


def test_round_trip(finished: RunRecord, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_run(finished, folder)
    benchmark, measured = read_run(folder)
    assert benchmark == "winoground"
    assert measured.ids == finished.measured.ids
    assert measured.tags == finished.measured.tags
    assert list(measured.measures) == list(finished.measured.measures)
    for name, measure in finished.measured.measures.items():
        again = measured.measures[name]
        assert np.array_equal(again.values, measure.values)
        assert np.array_equal(again.where, measure.where)
        assert (again.better, again.shown) == (measure.better, measure.shown)
    stored = Results.model_validate_json((folder / "results.json").read_text())
    assert stored == finished.results
    table = pq.read_table(folder / "scores.parquet")
    assert table.column_names == [
        "model", "benchmark", "score", "example", "image", "text", "value", "match",
    ]  # fmt: skip
    assert table.num_rows == 1600


def test_failure_in_the_middle_leaves_what_was_there(
    finished: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    write_run(finished, folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs_module, "examples_table", broken)
    with pytest.raises(KeyboardInterrupt):
        write_run(finished, folder, overwrite=True)
    with pytest.raises(KeyboardInterrupt):
        write_run(finished, tmp_path / "other")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kind.json", "run", "s.npy"]


def test_damaged_runs_are_refused(finished: RunRecord, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_run(finished, folder)
    spec = json.loads((folder / "spec.json").read_text())
    (folder / "spec.json").write_text(json.dumps({**spec, "layout": 99}))
    with pytest.raises(InputError, match="layout 99"):
        read_run(folder)
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "examples.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="damaged"):
        read_run(folder)


@pytest.mark.parametrize(
    "model",
    [
        "hf:openai/clip-vit-base-patch32",
        "hf:org/name@main,dtype=bf16",
        "openclip:ViT-B-32,laion2b_s34b_b79k",
        "joined:models/pair",
        "openai:gpt?url=http://localhost:8000/v1",
    ],
)
def test_a_model_of_any_name_can_be_chosen(finished: RunRecord, tmp_path: Path, model: str) -> None:
    names = ((model, "itc"), ("hf:other/model", "itc"))
    runs = [
        replace(
            finished,
            results=finished.results.model_copy(update={"model": name, "score": score}),
            scores=None,
        )
        for name, score in names
    ]
    folder = tmp_path / "run@1"
    write_run(runs, folder)
    for words in (model, f"{model},itc", f"{model},winoground,itc"):
        chosen, choice = split_choice(Path(f"{folder}@{words}"))
        assert chosen == folder
        assert read_run(chosen, choice)[0] == "winoground"
        assert cp.load_run(f"{folder}@{words}").model == model
    compared = cp.compare(f"{folder}@{model}", f"{folder}@hf:other/model,itc", resamples=100)
    assert compared.metrics["text"].difference == 0
    with pytest.raises(InputError, match=r"no run of .*hf:absent"):
        read_run(*split_choice(Path(f"{folder}@hf:absent")))


def test_no_flipped_bit_is_read(finished: RunRecord, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_run(finished, folder)
    draw = random.Random(23)  # noqa: S311
    for name in ("examples.parquet", "scores.parquet", "results.json", "spec.json"):
        good = (folder / name).read_bytes()
        for at in [0, len(good) - 1, *(draw.randrange(len(good)) for _ in range(100))]:
            damaged = bytearray(good)
            damaged[at] ^= 1 << draw.randrange(8)
            (folder / name).write_bytes(damaged)
            if name == "spec.json" and _same_json(good, bytes(damaged)):
                continue  # a space became another
            with pytest.raises(InputError, match=r"damaged|JSON|UTF-8|layout|empty"):
                runs_module.read_runs(folder)
        (folder / name).write_bytes(good)
    assert runs_module.read_runs(folder)[0].results == finished.results


def _same_json(one: bytes, two: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(two))
    except ValueError:
        return False


def test_a_run_whose_replacement_was_interrupted_is_read(
    finished: RunRecord, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    write_run(finished, folder)
    folder.rename(tmp_path / ".run.old")  # killed between the renames of the swap
    assert cp.load_run(folder).results == finished.results
    assert not (tmp_path / ".run.old").exists()


@pytest.mark.parametrize(
    "error",
    [pa.ArrowMemoryError("malloc failed"), OSError(errno.EMFILE, "Too many open files"),
     pa.ArrowException("Failed to launch worker thread: Resource temporarily unavailable")],
)  # fmt: skip
def test_a_machine_that_is_short_of_something_damages_no_run(
    finished: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    write_run(finished, tmp_path / "run")
    monkeypatch.setattr("pyarrow.parquet.read_table", fail)
    with pytest.raises(InputError, match="ran out") as raised:
        read_runs(tmp_path / "run")
    assert "damaged" not in str(raised.value)
