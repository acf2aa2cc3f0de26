"""The examples of README, of the API page, of the docstrings and of `examples/` run."""

from __future__ import annotations

import doctest
import inspect
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import contrapose as cp
from contrapose.files.local_server import LocalServer
from tests.conftest import ROOT, Cli
from tools.wheel import commands, shorten, write_files

NO_FUNCTIONS = ("Example", "Run", "Runs", "losses", "metrics")
FUNCTIONS = [name for name in cp.__all__ if name not in NO_FUNCTIONS]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)


def write_videos(folder: Path) -> None:
    """Videos and annotations of `examples/videos.py`."""
    pytest.importorskip("av")
    runpy.run_path(str(ROOT / "examples" / "videos.py"))["write_demo"](folder)


def test_the_page(tmp_path: Path) -> None:
    write_videos(tmp_path / "demo")
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"SHAPES": ROOT / "examples" / "shapes"}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "docs/api.md", "exec"), names)  # noqa: S102 - the page is ours
    run = names["run"]
    assert run.model == "tiny"
    assert (tmp_path / "accuracy.svg").read_text(encoding="utf-8").startswith("<svg")
    assert {file.name for file in (tmp_path / "runs" / "two").iterdir()} >= {"report.html"}


def test_the_page_names_every_function() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in FUNCTIONS:
        assert f"`{name}`" in page, name


README = (ROOT / "README.md").read_text(encoding="utf-8")
ELSEWHERE = ("hf:", "my_model.py", "clip.jsonl")
"""Words of commands that need a model or a file which the checkout does not have."""


def test_every_command_of_the_readme_runs(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalServer, "wait", lambda server: None)
    write_files(README, tmp_path)
    asked = [
        words for words in commands(README) if not any(" ".join(words).count(w) for w in ELSEWHERE)
    ]
    assert [words[0] for words in asked] == [
        "eval", "metrics", "check", "eval", "eval", "view", "compare",
    ]  # fmt: skip
    for words in asked:
        said = cli(*shorten(words))
        assert said.status == 0, said
    assert (tmp_path / "runs" / "clip" / "report.html").is_file()


def test_the_python_of_the_readme_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block.replace("50", "4"), "README.md", "exec"), names)  # noqa: S102 - ours
    assert names["run"].metrics["accuracy"].n == 4


def test_the_table_of_real_models_is_what_is_measured(shared: Path) -> None:
    files = {"CLIP": "clip", "ViLT": "vilt", "human": "human"}
    rows = dict(re.findall(r"^\| (CLIP|ViLT|human)\b.*?\| (\d.*) \|$", README, re.MULTILINE))
    assert set(rows) == set(files)
    for name, row in rows.items():
        path = shared / "winoground_scores" / f"{files[name]}.jsonl"
        metrics = cp.measure(path, "winoground").metrics
        for metric, cell in zip(("text", "image", "group"), row.split(" | "), strict=True):
            value, interval = metrics[metric].value, metrics[metric].ci95
            assert interval is not None
            low, high = interval
            assert cell == f"{100 * value:.2f} ({100 * low:.2f}–{100 * high:.2f})", name


def test_the_page_of_installation_names_every_extra() -> None:
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = "".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", listed)) == set(project["optional-dependencies"])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstrings(name: str, tmp_path: Path) -> None:
    if name == "tune_heads":
        _write_features(tmp_path / "features")
    if name in ("build_graph", "build_boundaries", "build_steps"):
        write_videos(tmp_path / "demo")
    function = cp._public(name)
    assert inspect.getdoc(function)
    parser = doctest.DocTestParser()
    test = parser.get_doctest(inspect.getdoc(function) or "", {}, name, None, None)
    assert test.examples, f"{name} has no example"
    printed: list[str] = []
    results = doctest.DocTestRunner().run(test, out=printed.append)
    assert results.failed == 0, "".join(printed)


def _write_features(folder: Path) -> None:
    folder.mkdir()
    random = np.random.default_rng(0)
    for split in ("train", "test"):
        np.save(folder / f"{split}_images.npy", random.normal(size=(40, 8)).astype(np.float32))
        np.save(folder / f"{split}_texts.npy", random.normal(size=(80, 12)).astype(np.float32))
        np.save(folder / f"{split}_image_of_text.npy", np.arange(80) // 2)


def test_quickstart(capsys: pytest.CaptureFixture[str]) -> None:
    script = ROOT / "examples" / "quickstart.py"
    imported = re.findall(r"^\s*(?:from|import) (contrapose\S*)", script.read_text(), re.MULTILINE)
    assert imported == ["contrapose"]
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    assert "color_match: " in printed
    assert "True" in printed
    assert "swaps/accuracy" in printed
