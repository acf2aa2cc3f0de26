"""Trial of the wheel: its parts; `make wheel` runs it whole."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import typer

from contrapose.cli.app import app
from tests.conftest import ROOT
from tools.wheel import commands, link_package, missing_files, shorten, write_files

PAGES = ("README.md", "docs/tutorial.md", "docs/index.md")


@pytest.mark.parametrize("name", PAGES)
def test_the_options_of_every_command_exist(name: str) -> None:
    group = typer.main.get_command(app)
    context = group.make_context("contrapose", [], resilient_parsing=True)
    asked = commands((ROOT / name).read_text(encoding="utf-8"))
    assert asked
    for words in asked:
        if words[0] == "tune" or "…" in "".join(words) or "|" in "".join(words):
            continue  # a group with a command of its own, or a summary of commands
        command = group
        rest = list(words)
        while hasattr(command, "get_command"):
            inner = command.get_command(context, rest.pop(0))
            assert inner is not None, words
            command = inner
        names = {name for parameter in command.params for name in parameter.opts}
        for word in rest:
            assert not word.startswith("-") or word in names, words


def test_commands_of_the_tutorial_are_shortened() -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    asked = commands(page)
    assert {words[0] for words in asked} >= {
        "check", "eval", "compare", "explain", "diagnose", "build", "tune", "index", "search",
    }  # fmt: skip
    tune = next(words for words in asked if words[0] == "tune")
    assert shorten(tune)[shorten(tune).index("--steps") + 1] == "1"
    assert len(shorten(tune)) == len(tune)


def test_files_with_a_title_are_written(tmp_path: Path) -> None:
    write_files('a\n```csv title="x.csv"\na,b\n```\n```\nno title\n```\n', tmp_path)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["a,b\n"]


def test_a_file_that_the_wheel_lacks_is_named(tmp_path: Path) -> None:
    wheel = tmp_path / "x.whl"
    package = ROOT / "src"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in (package / "contrapose").rglob("*"):
            if file.suffix != ".css":
                archive.writestr(file.relative_to(package).as_posix(), "")
    assert "contrapose/report/html/style.css" in missing_files(wheel)
    assert all(name.endswith(".css") for name in missing_files(wheel))


def test_an_installed_package_is_linked(tmp_path: Path) -> None:
    link_package("pluggy", tmp_path)
    names = {path.name.partition("-")[0] for path in tmp_path.iterdir()}
    assert names == {"pluggy"}
    assert (tmp_path / "pluggy" / "__init__.py").is_file()
