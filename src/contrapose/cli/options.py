"""Options shared by several verbs, and their parsers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from contrapose import models
from contrapose.engine import default_store_folder
from contrapose.errors import InputError

C = TypeVar("C", str, Path)


class CacheUse(StrEnum):
    """Use of cached scores: score only missing ones, all again, or none."""

    reuse = "reuse"
    refresh = "refresh"
    only = "only"


Device = Annotated[
    str, typer.Option(help="cpu, cuda, cuda:1, …; auto takes cuda where there is some.")
]
Dtype = Annotated[str | None, typer.Option(help="fp32, bf16 or fp16: what the model computes in.")]
BatchSize = Annotated[
    int | None,
    typer.Option(help="Images, captions or pairs at once. Left out: found by itself."),
]
Workers = Annotated[
    int | None, typer.Option(help="Threads that decode images. Left out: one a core.")
]
Cache = Annotated[
    str | None,
    typer.Option(
        help="Where answers are kept: a folder, or a URL such as s3://…. Left out: the user's "
        "cache folder."
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
    typer.Option(help="A Python file that registers models or benchmarks; may be repeated."),
]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that comes with the weights.")
]
Resamples = Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


def include_files(files: Sequence[Path] | None) -> None:
    """Run the user's files, which register models and benchmarks."""
    for file in files or ():
        models.include(file)


def require_positive(**numbers: int | None) -> None:
    """Reject options below 1; None is an option left out.

    Raises:
        InputError: says which.
    """
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise InputError(f"--{name.replace('_', '-')} must be at least 1, found {number}.")


def cache_option(cache: C | None, *, none: bool) -> C | Path | None:
    """Folder or URL of the cache; None for no cache.

    Raises:
        InputError: both a place and none.
    """
    if cache is not None and none:
        raise InputError("--cache and --no-cache do not go together.")
    return None if none else cache or default_store_folder()


def words_option(given: Sequence[str] | None) -> tuple[str, ...]:
    """Values of an option that may be repeated or separated by commas."""
    words = [word.strip() for text in given or () for word in text.split(",")]
    return tuple(dict.fromkeys(word for word in words if word))


def alpha_option(text: str | None, *, prior: bool) -> float | Literal["auto"]:
    """Weight of the prior to subtract; `auto` when left out.

    Raises:
        InputError: neither `auto` nor a number from 0 to 1, or there is no prior to take out.
    """
    if text is not None and not prior:
        raise InputError("--alpha says how much of a prior to take out: pass --prior too.")
    if text is None or text == "auto":
        return "auto"
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InputError(f"--alpha must be auto or a number from 0 to 1, found {text!r}.")
    return value
