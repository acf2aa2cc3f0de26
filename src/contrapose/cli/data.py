"""`contrapose data`: fetch benchmarks, verify and list them, find and remove their folders."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from contrapose.cli import options
from contrapose.cli.console import (
    echo,
    echo_json,
    error_console,
    output_console,
    show,
    show_progress,
)
from contrapose.errors import printable

SOME_MISSING = 1
MOST_NAMES = 20
"""Changed files that are named one by one."""

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Fetch benchmarks.")

Name = Annotated[str, typer.Argument(help="The benchmark's name.")]


@app.command("fetch")
def fetch(
    names: Annotated[list[str], typer.Argument(help="The benchmarks' names.")],
    offline: Annotated[
        bool, typer.Option("--offline", help="Fetch nothing: check what is there.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Fetch all files and images of benchmarks, and check those that are there already."""
    from contrapose.api.data import fetch_data
    from contrapose.data.fetch import describe_missing, describe_report

    missing = False
    for name in dict.fromkeys(names):
        with show_progress(quiet=quiet) as progress:
            report = fetch_data(name, offline=offline, progress=progress)
        echo(describe_report(report))
        if report.by_hand:
            error_console().print(f"Put in by hand: {report.by_hand}")
        if report.missing:
            missing = True
            error_console().print(describe_missing(report))
    if missing:
        raise typer.Exit(SOME_MISSING)


@app.command("verify")
def verify(
    names: Annotated[list[str], typer.Argument(help="The benchmarks' names.")],
    quiet: options.Quiet = False,
) -> None:
    """Compare every fetched file with its digest; status 1 where one was changed."""
    from contrapose.api.data import verify_data
    from contrapose.data.downloads import format_size

    changed = False
    for name in dict.fromkeys(names):
        with show_progress(quiet=quiet) as progress:
            report = verify_data(name, progress=progress)
        what = f"{name}: {report.files:,} files, {format_size(report.size)}, in {report.folder}"
        if not report.changed:
            echo(printable(f"{what}: all are as they were fetched"))
            continue
        changed = True
        echo(printable(f"{what}: {len(report.changed):,} are not as they were fetched"))
        for path, why in list(report.changed.items())[:MOST_NAMES]:
            echo(printable(f"  {path} {why}"))
        if len(report.changed) > MOST_NAMES:
            echo(f"  and {len(report.changed) - MOST_NAMES:,} more")
        error_console().print(f"contrapose data fetch {name} fetches these again.")
    if changed:
        raise typer.Exit(SOME_MISSING)


@app.command("list")
def list_all(
    as_json: Annotated[bool, typer.Option("--json", help="Print the states as JSON.")] = False,
) -> None:
    """Benchmarks and their files: state, size, licence, folder."""
    from contrapose.api.data import find_data, list_data
    from contrapose.report.benchmarks import data_table

    states = list_data()
    if as_json:
        echo_json(json.dumps([asdict(one) for one in states], indent=2, default=str))
        return
    show(
        output_console(),
        [data_table(states), f"Fetched files are in {find_data()}; CONTRAPOSE_DATA names another."],
    )


@app.command("where")
def where(
    name: Annotated[
        str | None, typer.Argument(help="The benchmark's name. Left out: the folder of all.")
    ] = None,
) -> None:
    """Print a benchmark's folder, and nothing else: --root "$(contrapose data where NAME)"."""
    from contrapose.api.data import find_data

    echo(str(find_data(name)))


@app.command("remove")
def remove(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a benchmark's files in the cache."""
    from contrapose.api.data import remove_data
    from contrapose.data.cached_data import require_removable
    from contrapose.data.downloads import format_size

    folder = require_removable(name)
    if not yes and not typer.confirm(f"Delete {folder}?"):
        raise typer.Exit(SOME_MISSING)
    size = remove_data(name)
    echo(f"{name}: {format_size(size)} deleted")
