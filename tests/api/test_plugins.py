"""`examples/plugin`: a model, a benchmark, a metric and a loss from outside the package."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import contrapose as cp
from contrapose.data import registry as benchmarks
from contrapose.losses import registry as losses
from contrapose.models import registry as models
from contrapose.results.shapes import registry as shapes
from tests.conftest import ROOT, Cli

EXAMPLE = ROOT / "examples" / "plugin"
PAGE = (ROOT / "docs" / "plug-ins.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FILES = ("my_model", "my_benchmark", "my_metric", "my_loss")


@pytest.fixture(autouse=True)
def _nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test includes the files anew, and leaves no names behind."""
    monkeypatch.setattr(models, "_loaders", {})
    monkeypatch.setattr(benchmarks, "_registered", {})
    monkeypatch.setattr(shapes, "_registered", {})
    monkeypatch.setattr(losses, "_FACTORIES", dict(losses._FACTORIES))
    for name in [key for key in sys.modules if key.startswith("contrapose_included_")]:
        monkeypatch.delitem(sys.modules, name)


def test_model_benchmark_and_metric(cli: Cli, tmp_path: Path) -> None:
    said = cli(
        "eval", "mean-color", "--on", "colors", "--root", EXAMPLE / "colors",
        *(word for name in FILES[:3] for word in ("--include", EXAMPLE / f"{name}.py")),
        "--cache", tmp_path / "cache", "--json",
    )  # fmt: skip
    assert said.status == 0, said
    (run,) = json.loads(said.out)["runs"]
    assert (run["benchmark"], run["model"], run["score"]) == ("colors", "mean-color", "itc")
    assert run["metrics"]["accuracy"]["value"] == 1
    assert 0 < run["metrics"]["margin"]["value"] < 1


def test_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    monkeypatch.chdir(EXAMPLE)
    for name in FILES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    (block,) = (block for block in BLOCKS if "import contrapose as cp" in block)
    names: dict[str, cp.Run] = {}
    page = compile(block.replace('root="colors"', 'root="colors", cache=False'), "page", "exec")
    exec(page, names)  # noqa: S102 - the page is ours
    assert names["run"].metrics["accuracy"].value == 1
    assert "margin" in names["run"].examples()[0]["outcomes"]
    for name in FILES:
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_the_model_conforms(cli: Cli) -> None:
    said = cli("check", "model", f"{EXAMPLE / 'my_model.py'}:MeanColor")
    assert said.status == 0, said


def test_the_loss_is_trained(cli: Cli, tmp_path: Path) -> None:
    said = cli(
        "tune", "tiny-clip", "--data", "scenes", "--with", "margin+hp", "--out", tmp_path / "tuned",
        "--include", EXAMPLE / "my_loss.py", "--steps", 2, "--batch-size", 8, "--scenes", 16,
        "--limit", 2, "--device", "cpu", "--quiet", "--json",
    )  # fmt: skip
    assert said.status == 0, said
    assert json.loads(said.out)["objective"] == "margin+hp"


@pytest.mark.parametrize(("block", "name"), list(zip(BLOCKS, FILES, strict=False)))
def test_the_page_shows_the_files(block: str, name: str) -> None:
    assert block.strip() in (EXAMPLE / f"{name}.py").read_text(encoding="utf-8")
