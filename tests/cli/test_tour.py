"""The notebook of the tour runs; `tools/wheel.py` runs the tutorial's commands."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)


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
