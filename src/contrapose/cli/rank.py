"""`contrapose rank`: models in tiers of significance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.console import show_phase
from contrapose.cli.option_groups import ComparisonOptions, ResultOptions, take_options

app = typer.Typer(add_completion=False)


@app.command()
@take_options
def rank(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN…",
            help="Run folders or score files; of a folder all runs, or FOLDER@tiny,lm. NAME=RUN "
            "names the model.",
        ),
    ],
    tests: ComparisonOptions,
    output: ResultOptions,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Rank by this metric; may be repeated. The main one by default."),
    ] = None,
    common: Annotated[
        bool,
        typer.Option("--common", help="Rank on the benchmarks and examples that all models have."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write: the ranking as JSON, a page, and diagrams as SVG."),
    ] = None,
) -> None:
    """Rank models in tiers of significance, and tell which differences are noise."""
    from contrapose.api.rank import rank as rank_runs
    from contrapose.report.formats import ranking_rows
    from contrapose.report.ranking import ranking_tables

    with show_phase("reading and comparing runs", quiet=output.quiet):
        ranking = rank_runs(
            *({name: run} if name else run for name, run in map(_split_name, runs)),
            metric=metric,
            common=common,
            out=out,
            **tests.arguments(),
            **output.arguments(),
        )
    output.show(
        lambda: ranking.model_dump_json(indent=2),
        lambda: ranking_tables(ranking),
        lambda: ranking_rows(ranking),
    )
    output.say_written(out)


def _split_name(word: str) -> tuple[str, str]:
    """Name and run of `NAME=RUN`; the name is empty for a path, even one that holds `=`."""
    name, equals, run = word.partition("=")
    if not equals or not name or not run or set("/@") & set(name) or Path(word).exists():
        return "", word
    return name, run
