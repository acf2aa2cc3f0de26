"""Help: options in groups with examples that parse, one word for one thing, and completion."""

from __future__ import annotations

import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from contrapose.cli.app import VERBS
from contrapose.cli.help import EXAMPLES, PANELS, add_help
from contrapose.cli.options import complete_benchmarks, complete_models, complete_scores
from tests.conftest import Cli


def commands() -> dict[str, Any]:
    """Every command by its words."""
    leaves: dict[str, Any] = {}

    def walk(name: str, command: Any) -> None:
        for verb, child in getattr(command, "commands", {}).items():
            walk(f"{name} {verb}", child)
        if not hasattr(command, "commands"):
            leaves[name] = command

    for verb, module in VERBS.items():
        app = import_module(f"contrapose.cli.{module}").app
        walk(verb, add_help(typer.main.get_command(app), verb))
    return leaves


COMMANDS = commands()


def test_nearly_every_option_has_a_group() -> None:
    options = [
        parameter
        for command in COMMANDS.values()
        for parameter in command.params
        if parameter.param_type_name == "option" and "--help" not in parameter.opts
    ]
    grouped = [one for one in options if one.rich_help_panel == PANELS.get(one.name, "")]
    assert len(grouped) > 0.95 * len(options)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_command_lines_that_parse(name: str) -> None:
    lines = [line.strip() for line in EXAMPLES[name].split("\n") if line.strip()]
    parsed = 0
    for line in (line for line in lines if "-h:" not in line):
        program, *words = shlex.split(line)
        assert program == "contrapose"
        words = words[len(name.split()) - (name == "tune model") :]
        context = COMMANDS[name].make_context(name, words, resilient_parsing=False)
        assert context.params
        parsed += 1
    assert parsed


def test_one_word_for_one_thing() -> None:
    flags = {name: {flag for p in command.params for flag in p.opts} for name, command in
             COMMANDS.items()}  # fmt: skip
    for name in ("eval", "audit", "diagnose"):
        assert {"--subset", "--limit"} <= flags[name]
    assert "--limit" in flags["demo"]
    assert "--subset" in flags["build scenes"]
    assert not any({"--part", "--number"} & some for some in flags.values())


def test_help_shows_groups_and_examples(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = cli("eval", "-h").out
    for word in ("Data", "Model", "Score", "Statistics", "Cache", "Output", "Examples:"):
        assert word in text
    assert text.index("--on") < text.index("--device") < text.index("--json")


@pytest.mark.parametrize("words", [["tune", "-h"], ["tune", "--help"], ["tune"]])
def test_tune_shows_its_options(cli: Cli, words: list[str]) -> None:
    text = cli(*words).out
    assert "--data" in text
    assert "--with" in text
    assert "tune heads" in text


def test_completion(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete_models("tiny") == ["tiny", "tiny-clip"]
    assert "hf:openai/clip-vit-base-patch32" in complete_models("hf:")
    assert complete_benchmarks("winog") == ["winoground"]
    assert complete_benchmarks("scenes,winog") == ["scenes,winoground"]
    assert set(complete_scores("it")) >= {"itc", "itm"}
    monkeypatch.setenv("_CONTRAPOSE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "contrapose eval tiny --on winogr")
    monkeypatch.setenv("COMP_CWORD", "4")
    monkeypatch.setattr("sys.argv", ["contrapose"])
    assert cli().out.split() == ["winoground"]


def test_completion_can_be_installed(cli: Cli, tmp_path: Path) -> None:
    assert "--install-completion" in cli("-h").out
