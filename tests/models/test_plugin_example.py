"""The example of a model and a benchmark of one's own runs as its page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from contrapose.data import find_benchmark
from contrapose.data import registry as benchmarks
from contrapose.models import registry as models
from tests.conftest import Cli

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "plugin"


@pytest.fixture(autouse=True)
def _nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test includes the files anew, and leaves no names behind."""
    import sys

    monkeypatch.setattr(models, "_loaders", {})
    monkeypatch.setattr(benchmarks, "_registered", {})
    for name in [each for each in sys.modules if each.startswith("contrapose_included_")]:
        monkeypatch.delitem(sys.modules, name)


def test_the_example_runs(cli: Cli, tmp_path: Path) -> None:
    said = cli(
        "eval", "mean-colour", "--on", "colours", "--root", EXAMPLE / "colours",
        "--include", EXAMPLE / "my_model.py", "--include", EXAMPLE / "my_benchmark.py",
        "--cache", tmp_path / "cache", "--json",
    )  # fmt: skip
    assert said.status == 0, said
    assert find_benchmark("colours")
    (run,) = json.loads(said.out)["runs"]
    assert (run["benchmark"], run["model"], run["score"]) == ("colours", "mean-colour", "itc")
    assert run["metrics"]["accuracy"]["value"] == 1


def test_the_model_conforms(cli: Cli) -> None:
    said = cli("check", "model", f"{EXAMPLE / 'my_model.py'}:MeanColour")
    assert said.status == 0, said


def test_the_page_shows_the_files() -> None:
    page = (ROOT / "docs" / "plug-ins.md").read_text(encoding="utf-8")
    files = [
        (EXAMPLE / name).read_text(encoding="utf-8") for name in ("my_model.py", "my_benchmark.py")
    ]
    shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]
    for block, file in zip(shown, files, strict=True):
        assert block.strip() in file
