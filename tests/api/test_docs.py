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
    # The examples need no more than the steps they take: few regions are 2 ** 3 images, not 2 ** 8.
    monkeypatch.setattr("contrapose.diagnose.regions.DEFAULT_SUPERPIXELS", 3)


SMALL = {"batch_size": 8, "examples": 3, "limit": 4, "scenes": 12, "steps": 2}


def shrink(code: str) -> str:
    """Same code with smaller numbers of examples, scenes and steps."""
    return re.sub(
        rf"\b({'|'.join(SMALL)})=(\d+)\b",
        lambda match: f"{match[1]}={min(int(match[2]), SMALL[match[1]])}",
        code,
    )


def run_small(code: str, file: Path, names: dict[str, Any]) -> dict[str, Any]:
    """Run Python code of a page or script with smaller numbers; gives its variables."""
    variables = {"__file__": str(file), **names}
    exec(compile(shrink(code), str(file), "exec"), variables)  # noqa: S102 - the code is ours
    return variables


def write_videos(folder: Path) -> None:
    """Videos and annotations of `examples/videos.py`."""
    pytest.importorskip("av")
    runpy.run_path(str(ROOT / "examples" / "videos.py"))["write_demo"](folder)


def test_the_page(tmp_path: Path) -> None:
    write_videos(tmp_path / "demo")
    page = ROOT / "docs" / "api.md"
    names: dict[str, Any] = {"SHAPES": ROOT / "examples" / "shapes"}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        names = run_small(block, page, names)
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
    names = run_small(block, ROOT / "README.md", {})
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


COUNTS = ("evaluate", "index", "load_index")
"""Functions whose examples print how many there are."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstrings(name: str, tmp_path: Path) -> None:
    if name == "tune_heads":
        _write_features(tmp_path / "features")
    if name in ("build_graph", "build_boundaries", "build_steps"):
        write_videos(tmp_path / "demo")
    function = cp._public(name)
    text = inspect.getdoc(function) or ""
    if name not in COUNTS:
        text = shrink(text)
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
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
    code = script.read_text(encoding="utf-8")
    imported = re.findall(r"^\s*(?:from|import) (contrapose\S*)", code, re.MULTILINE)
    assert imported == ["contrapose"]
    run_small(code, script, {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert "color_match: " in printed
    assert "True" in printed
    assert "swaps/accuracy" in printed
