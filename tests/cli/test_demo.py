"""The demo, with small models in place of the built-in ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from contrapose import results
from contrapose.cli import demo
from contrapose.evaluation import selection
from tests.conftest import Cli
from tests.fakes import Fake, Tower, patches
from tests.report.html.checks import Balanced, finite


@pytest.fixture(autouse=True)
def _small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "MODELS", (Fake(), Tower()))
    monkeypatch.setattr(demo, "BENCHMARK", "patches")
    monkeypatch.setattr(selection, "find_benchmark", lambda name: patches())


def test_table_report_and_run(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    said = cli("demo", "--out", out, "--limit", 10)
    assert said.status == 0, said
    lines = said.out.splitlines()
    labels = ("fake itc", "fake itm", "fake lm", "fake lm-alpha", "tower itc")
    assert all(label in lines[1] for label in labels)
    assert [line.split()[0] for line in lines[2:7]] == [
        "all", "pairs", "choices", "gallery", "edits",
    ]  # fmt: skip
    assert str(out / "report.html") in said.out.replace("\n", "")
    markup = (out / "report.html").read_text(encoding="utf-8")
    page = Balanced(markup)
    assert finite(markup)
    headings = {"By part", "The language prior", "Equivariance", "Examples"}
    assert headings <= set(page.text)
    assert len(json.loads((out / "run" / "results.json").read_text())["runs"]) == 5


def undated(report: Path) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:+]+", "", report.read_text(encoding="utf-8"))


def test_again_is_the_same(cli: Cli, tmp_path: Path) -> None:
    first = cli("demo", "--out", tmp_path, "--quiet")
    before = undated(tmp_path / "report.html")
    (tmp_path / "mine.txt").write_text("kept")
    second = cli("demo", "--out", tmp_path, "--quiet")
    assert first == second
    assert second.err == ""
    assert undated(tmp_path / "report.html") == before
    assert (tmp_path / "mine.txt").read_text() == "kept"


def test_others_files_are_not_overwritten(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    assert "choose another --out" in cli("demo", "--out", tmp_path).refused()
    assert (tmp_path / "report.html").read_text() == "mine"
    (tmp_path / "b" / "run").mkdir(parents=True)
    (tmp_path / "b" / "run" / "notes.txt").write_text("mine")
    assert "not a run folder" in cli("demo", "--out", tmp_path / "b").refused()


def test_a_file_in_the_way(cli: Cli, tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("mine")
    assert "is not a folder" in cli("demo", "--out", taken).refused()
    assert "is not a folder" in cli("demo", "--out", taken / "below").refused()


def test_full_disk(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results, "write_run", full)
    said = cli("demo", "--out", tmp_path / "demo", "--quiet").refused()
    assert "cannot be written to (No space left on device)" in said
