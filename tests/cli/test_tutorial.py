"""The tutorial's commands run as they stand on the page, on fewer examples; the notebook too."""

from __future__ import annotations

import ast
import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Cli

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
SMALLER = {
    "--limit": "3", "--scenes": "8", "--steps": "1", "--batch-size": "4", "--examples": "2",
}  # fmt: skip
"""Options whose values are cut, so that the test is quick."""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)


def commands() -> list[list[str]]:
    """Commands of the page, in order."""
    return [shlex.split(line)[1:] for line in re.findall(r"^contrapose .*", PAGE, re.MULTILINE)]


def shorten(words: list[str]) -> list[str]:
    smaller = ("--superpixels", "2") if words[0] == "explain" else ()
    shorter = [SMALLER.get(before, word) for before, word in pairwise(["", *words])]
    return [*shorter, *smaller]


def test_every_command_of_the_tutorial_runs(cli: Cli, tmp_path: Path) -> None:
    for name, content in re.findall(r'```\w+ title="([\w.]+)"\n(.*?)```', PAGE, re.DOTALL):
        (tmp_path / name).write_text(content, encoding="utf-8")
    asked = commands()
    assert {words[0] for words in asked} >= {
        "check", "eval", "compare", "explain", "diagnose", "build", "tune", "index", "search",
    }  # fmt: skip
    for words in asked:
        said = cli(*shorten(words))
        assert said.status == 0, said
    assert {"pair.html", "diagnosis", "tuned", "runs", "pairs.jsonl"} <= {
        file.name for file in tmp_path.iterdir()
    }
    names: dict[str, Any] = {}
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "docs/tutorial.md", "exec"), names)  # noqa: S102 - the page is ours
    assert names["run"].metrics["group"].n == 2


def test_the_notebook_runs() -> None:
    notebook = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    names: dict[str, Any] = {}
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert not cell["outputs"]  # outputs are not kept, so that they cannot be out of date
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop()
        exec(compile(tree, "tour.ipynb", "exec"), names)  # noqa: S102 - the notebook is ours
        value = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
        if value is None:
            exec(compile(ast.Module([last], []), "tour.ipynb", "exec"), names)  # noqa: S102
        else:
            shown.append(eval(compile(value, "tour.ipynb", "eval"), names))  # noqa: S307
    assert len(shown) == 6
    assert set(shown[-1][1]) == {"P1", "P2", "P3", "P4"}
