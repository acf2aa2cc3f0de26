"""Options shared by several verbs, and their parsers; `option_groups.py` groups them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from contrapose.errors import InputError


def complete_models(incomplete: str) -> list[str]:
    """Models whose names begin so: registered ones, and an example of each family."""
    from contrapose.models.registry import families, model_names

    names = [*model_names(), *(card.example for card in families())]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def complete_benchmarks(incomplete: str) -> list[str]:
    """Benchmarks whose names begin so, after the last comma; files are completed by the shell."""
    from contrapose.api.catalog import benchmarks

    return _complete_list(incomplete, benchmarks())


def complete_scores(incomplete: str) -> list[str]:
    """Scores whose names begin so, after the last comma."""
    from contrapose.api.catalog import scores

    return _complete_list(incomplete, scores())


def _complete_list(incomplete: str, names: Iterable[str]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]


class CacheUse(StrEnum):
    """Use of cached scores: score only missing ones, all again, or none."""

    reuse = "reuse"
    refresh = "refresh"
    only = "only"


class OutputFormat(StrEnum):
    """Formats of printed results."""

    markdown = "markdown"
    latex = "latex"
    csv = "csv"


class HeadOption(StrEnum):
    """Kinds of heads."""

    linear = "linear"
    mlp = "mlp"


Device = Annotated[
    str, typer.Option(help="cpu, cuda, cuda:1, …; auto takes cuda where there is some.")
]
Dtype = Annotated[str | None, typer.Option(help="fp32, bf16 or fp16: what the model computes in.")]
BatchSize = Annotated[
    int | None,
    typer.Option(help="Images, captions or pairs at once. Left out: found by itself."),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Threads that decode images. Left out: one a core."),
]
Cache = Annotated[
    str | None,
    typer.Option(
        help="Where scores, vectors and replies are kept: a folder, or a URL such as s3://…. Left "
        "out: the user's cache folder."
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Keep nothing, and ask everything again.")
]
CacheUseOption = Annotated[
    CacheUse, typer.Option(help="Score what the cache does not hold, everything again, or nothing.")
]
Include = Annotated[
    list[Path] | None,
    typer.Option(help="A Python file that registers models, benchmarks, losses; may be repeated."),
]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that comes with the weights.")
]
Root = Annotated[
    Path | None,
    typer.Option(
        help="The benchmark's folder, or one with a folder of each benchmark's name. Left out: "
        "what is missing is fetched."
    ),
]
Subset = Annotated[
    list[str] | None, typer.Option(help="Only this subset or part; A,B or repeated.")
]
Limit = Annotated[int | None, typer.Option(help="At most N examples of each subset.")]
Resamples = Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
Offline = Annotated[
    bool,
    typer.Option("--offline", help="Fetch nothing: without --root the cache must hold the files."),
]
IndexModel = Annotated[
    str | None,
    typer.Option(
        help="The model, where the folder has several indexes; or a text encoder of the same space."
    ),
]
Subjects = Annotated[
    Path | None, typer.Option(help="Texts of what images show, one a line, for basic.")
]
Styles = Annotated[
    Path | None, typer.Option(help="Texts of how images show it, one a line, for basic.")
]
Every = Annotated[
    bool, typer.Option("--all", help="Every row: all metrics of all parts, not the main ones.")
]
Format = Annotated[
    OutputFormat | None,
    typer.Option("--format", help="Print tables for a document, or every value as CSV."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Let --out take the place of an earlier result.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Write nothing; print the counts to expect.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no remarks.")]


def require_one_format(as_json: bool, form: OutputFormat | None) -> None:
    """Require that JSON and another format are not both asked for.

    Raises:
        InputError: both are.
    """
    if as_json and form is not None:
        raise InputError("--json and --format do not go together.")


def cache_option(cache: str | Path | None, none: bool) -> str | Path | bool:
    """Folder or URL of stored scores; True for the user's cache folder, False for none.

    Raises:
        InputError: both a folder and none.
    """
    if cache is not None and none:
        raise InputError("--cache and --no-cache do not go together.")
    return False if none else cache or True


def models_option(given: Sequence[str] | None) -> tuple[str, ...]:
    """Model strings of an option that may be repeated or separated by commas."""
    from contrapose.models.names import split_models

    return tuple(dict.fromkeys(name for text in given or () for name in split_models(text)))


def words_option(given: Sequence[str] | None) -> tuple[str, ...]:
    """Values of an option that may be repeated or separated by commas."""
    words = [word.strip() for text in given or () for word in text.split(",")]
    return tuple(dict.fromkeys(word for word in words if word))
