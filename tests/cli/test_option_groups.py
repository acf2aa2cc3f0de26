"""Groups of options: their fields are options of the verbs that take them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from contrapose.cli import options
from contrapose.cli.help import GROUPS
from contrapose.cli.option_groups import (
    CacheOptions,
    FormatOptions,
    IncludeOptions,
    OptionGroup,
    PrintOptions,
    SelectionOptions,
    WriteOptions,
    dump_json,
    take_options,
)
from contrapose.errors import InputError
from tests.cli.test_help import COMMANDS
from tests.conftest import Cli


@dataclass(frozen=True, kw_only=True)
class PairOptions(OptionGroup):
    """A required option, and one with a default."""

    LOCAL = frozenset({"folder"})

    folder: Annotated[Path, typer.Option(help="A folder.")]
    format: options.CacheUseOption = options.CacheUse.reuse


def run_verb(*words: str) -> dict[str, Any]:
    """Run a verb that takes a group between an argument and an option of its own."""
    seen: dict[str, Any] = {}
    app = typer.Typer()

    @app.command()
    @take_options
    def verb(name: Annotated[str, typer.Argument()], pairs: PairOptions, count: int = 3) -> None:
        """Keep what came."""
        seen.update(name=name, pairs=pairs, count=count)

    typer.main.get_command(app).main(list(words), standalone_mode=False)
    return seen


def test_fields_of_a_group_are_options_of_the_verb() -> None:
    seen = run_verb("a", "--folder", "here", "--count", "4")
    assert seen == {"name": "a", "pairs": PairOptions(folder=Path("here")), "count": 4}
    assert seen["pairs"].arguments() == {"format": "reuse"}
    assert run_verb("a", "--folder", "b", "--format", "only")["pairs"].format == "only"


def test_a_field_without_default_is_required() -> None:
    with pytest.raises(Exception, match="folder"):
        run_verb("a")


def test_arguments_are_those_of_the_api() -> None:
    assert SelectionOptions(subset=["a,b", "c"]).arguments() == {
        "root": None, "subset": ("a", "b", "c"), "limit": None, "offline": False,
    }  # fmt: skip
    assert CacheOptions().arguments() == {"cache": True}
    assert CacheOptions(no_cache=True).arguments() == {"cache": False}
    assert CacheOptions(cache="s3://here").arguments() == {"cache": "s3://here"}
    assert WriteOptions(as_json=True, quiet=True, overwrite=True).arguments() == {"overwrite": True}


def test_options_that_clash_are_refused() -> None:
    with pytest.raises(InputError, match="--json and --format"):
        FormatOptions(as_json=True, form=options.OutputFormat.csv)
    with pytest.raises(InputError, match="--cache and --no-cache"):
        CacheOptions(cache="here", no_cache=True).arguments()


def test_included_files_run_when_the_options_are_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n", encoding="utf-8")
    assert IncludeOptions(include=[file]).arguments() == {}
    assert (tmp_path / "ran").exists()


def test_only_the_form_that_was_asked_for_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> Any:
        raise AssertionError

    PrintOptions(as_json=True).show(lambda: dump_json({"é": 1}), refuse)
    PrintOptions().show(refuse, lambda: ["a sentence"])
    FormatOptions(form=options.OutputFormat.csv).show(refuse, list, lambda: [{"a": 1}])
    assert capsys.readouterr().out == '{\n  "é": 1\n}\na sentence\na\n1\n'


def test_verbs_share_words_types_and_texts() -> None:
    shared = {
        "subset": {"diagnose"}, "limit": {"demo", "tune model"}, "offline": {"data fetch"},
        "cache": set(), "no_cache": set(), "cache_use": set(), "include": set(),
        "trust_remote_code": set(), "overwrite": set(), "as_json": {"data list"}, "quiet": set(),
        "form": set(), "resamples": set(), "level": set(), "dry_run": set(),
    }  # fmt: skip
    for option, others in shared.items():
        texts = {
            (parameter.help, tuple(parameter.opts), parameter.min, parameter.max)
            for name, command in COMMANDS.items()
            for parameter in command.params
            if parameter.name == option and name not in others
        }
        assert len(texts) == 1, option


def test_options_of_a_group_have_one_order_in_every_help() -> None:
    order = {name: i for names in GROUPS.values() for i, name in enumerate(names.split())}
    for command in COMMANDS.values():
        panels: dict[str, list[int]] = {}
        for parameter in command.params:
            panel = getattr(parameter, "rich_help_panel", None)
            if panel is not None and parameter.name in GROUPS[panel].split():
                panels.setdefault(panel, []).append(order[parameter.name])
        assert all(numbers == sorted(numbers) for numbers in panels.values())


def test_where_a_word_means_another_thing_the_option_stands_in_its_group() -> None:
    panels = {
        (name, parameter.name): getattr(parameter, "rich_help_panel", None)
        for name, command in COMMANDS.items()
        for parameter in command.params
    }
    assert panels["eval", "shard"] == panels["eval", "engine"] == "Model"
    assert panels["build scenes", "engine"] == panels["build graph", "side"] == "Images"
    assert panels["diagnose", "side"] == "Game"


def test_compare_and_metrics_are_quiet(cli: Cli, tmp_path: Path) -> None:
    shapes = Path(__file__).parents[2] / "examples" / "shapes"
    words = (
        "metrics",
        str(shapes / "examples.jsonl"),
        "--scores",
        str(shapes / "bag-of-words.csv"),
    )
    assert "Written" in cli(*words, "--out", str(tmp_path / "a")).err
    assert "Written" not in cli(*words, "--out", str(tmp_path / "b"), "--quiet").err
