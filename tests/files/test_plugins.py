"""A user's own file is run once, and what is wrong with it is told with its line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from contrapose.errors import InputError
from contrapose.files import include


def test_a_file_is_run_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("runs = []\nruns.append(1)\n")
    first = include(file)
    file.write_text("raise RuntimeError")
    assert include(str(file)) is first
    assert first.runs == [1]
    assert "mine" not in sys.modules
    assert sys.modules[first.__name__] is first


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("x = 1\ny = z\n", r"line 2: fails when it is included \(NameError: name 'z'"),
        ("x = 1\n\ndef f(:\n", r"line 3: fails when it is included \(SyntaxError"),
        ("import no_such_package\n", "line 1: .*ModuleNotFoundError"),
        ("import json\n\njson.loads('{')\n", "line 3: .*JSONDecodeError"),
    ],
)
def test_what_fails_is_told_with_its_line(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(content)
    before = set(sys.modules)
    with pytest.raises(InputError, match=says):
        include(file)
    assert not {name for name in set(sys.modules) - before if name.startswith("contrapose")}
    file.write_text("x = 2\n")
    assert include(file).x == 2


def test_an_error_of_ours_passes(tmp_path: Path) -> None:
    file = tmp_path / "taken.py"
    file.write_text("from contrapose.models import register_model\nregister_model('tiny')(print)\n")
    with pytest.raises(InputError, match=r"^there is a model 'tiny' already"):
        include(file)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        include(tmp_path / "none.py")
    (tmp_path / "text.txt").write_text("")
    with pytest.raises(InputError, match=r"ends in \.py"):
        include(tmp_path / "text.txt")
