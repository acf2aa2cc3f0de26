"""Exports as files: the same twice, whole or not at all, and nothing else overwritten."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from contrapose.errors import InputError
from contrapose.results import exports as writing
from contrapose.results.exports import export_run, read_run_folder
from contrapose.results.run_files import read_spec, write_spec
from tests.conftest import Cli
from tests.results.exports.conftest import WHEN


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("shape", ["lm-eval", "mteb"])
def test_the_same_run_gives_the_same_files(asked: Path, tmp_path: Path, shape: str) -> None:
    files = export_run(asked, tmp_path / "a", shape, time=WHEN)
    export_run(asked, tmp_path / "b", shape, time=WHEN)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert files == sorted(tmp_path / "a" / name for name in contents(tmp_path / "a"))
    text = b"".join(contents(tmp_path / "a").values()).decode()
    assert "NaN" not in text
    assert str(tmp_path) not in text


def test_times(asked: Path) -> None:
    os.utime(asked / "spec.json", (1_700_000_000, 1_700_000_000))
    assert read_run_folder(asked).time == datetime.fromtimestamp(1_700_000_000, UTC)
    assert read_run_folder(asked, WHEN).time == WHEN
    write_spec(asked, {**read_spec(asked), "time": "2025-05-04T03:02:01"})
    assert read_run_folder(asked).time == datetime(2025, 5, 4, 3, 2, 1, tzinfo=UTC)


def test_the_command(cli: Cli, asked: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = cli(
        "export", asked, "--format", "mteb", "--out", out, "--time", "2026-01-31T13:30:00+01:00"
    )
    assert said.status == 0, said
    assert f"written to {out}" in said.out
    assert json.loads((out / "export.json").read_text())["time"] == WHEN.isoformat()
    message = cli("export", asked, "--format", "lm-eval", "--out", out).refused()
    assert "--overwrite" in message
    assert (out / "acme__fake").is_dir()
    said = cli("export", asked, "--format", "lm-eval", "--out", out, "--overwrite")
    assert said.status == 0
    assert not (out / "acme__fake").exists()
    assert list(out.glob("*/results_*.json"))


def test_bad_input(cli: Cli, asked: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def refused(run: Path, *more: object) -> str:
        before = sorted(tmp_path.rglob("*"))
        message = cli("export", run, "--out", out, *more).refused()
        assert sorted(tmp_path.rglob("*")) == before
        return message

    assert "does not exist" in refused(tmp_path / "none", "--format", "mteb")
    (tmp_path / "empty").mkdir()
    assert "is not a run folder" in refused(tmp_path / "empty", "--format", "mteb")
    assert "did you mean mteb" in refused(asked, "--format", "mtebb")
    assert "--time must be" in refused(asked, "--format", "mteb", "--time", "yesterday")
    (asked / "results.json").write_text("{")
    assert "results.json" in refused(asked, "--format", "mteb")


def test_damaged_folders(asked: Path, tmp_path: Path) -> None:
    good = contents(asked)
    results = json.loads(good["results.json"])
    spec = json.loads(good["spec.json"])
    for name, content in (
        ("results.json", json.dumps({**results, "runs": results["runs"][1:]})),
        ("results.json", "[1]"),
        ("spec.json", json.dumps({**spec, "runs": 7})),
        ("spec.json", json.dumps({**spec, "layout": 99})),
        ("scores.parquet", "PAR1"),
        ("examples.parquet", "PAR1"),
    ):
        (asked / name).write_text(content)
        with pytest.raises(InputError):
            export_run(asked, tmp_path / "out", "lm-eval")
        assert not (tmp_path / "out").exists()
        (asked / name).write_bytes(good[name])
    export_run(asked, tmp_path / "out", "lm-eval")


def test_other_folders_are_never_overwritten(asked: Path, tmp_path: Path) -> None:
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(InputError):
            export_run(asked, out, "mteb", overwrite=overwrite)
    with pytest.raises(InputError, match="is not an export"):
        export_run(asked, asked, "mteb", overwrite=True)
    assert (out / "thesis.txt").read_text() == "years of work"


def test_nothing_half_written(asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(writing, "write_bytes", full)
    with pytest.raises(InputError, match="cannot be written"):
        export_run(asked, tmp_path / "out", "mteb")
    assert [path.name for path in tmp_path.iterdir()] == ["asked"]
