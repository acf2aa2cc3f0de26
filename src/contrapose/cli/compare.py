"""`contrapose compare`: paired comparison of runs with a baseline, on the same examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.console import show_phase
from contrapose.cli.option_groups import ComparisonOptions, ResultOptions, take_options

GATE_FAILED = 1

app = typer.Typer(add_completion=False)


@app.command()
@take_options
def compare(
    a: Annotated[Path, typer.Argument(help="The first score file or run folder: the baseline.")],
    b: Annotated[
        list[Path],
        typer.Argument(
            metavar="B…", help="The candidates, of the same examples: each is compared with A."
        ),
    ],
    tests: ComparisonOptions,
    output: ResultOptions,
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit with 1 when a candidate is significantly worse.")
    ] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Compare this metric; may be repeated. All shares by default."),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Compare on the examples that both have.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write a folder with report.html: the examples of both, side by side."),
    ] = None,
) -> None:
    """Compare score files or runs of the same examples with a baseline, pair by pair."""
    from contrapose.api.compare import compare_all
    from contrapose.report.comparison import comparison_table, comparisons_tables
    from contrapose.report.formats import comparison_rows

    with show_phase("reading and comparing runs", quiet=output.quiet):
        result = compare_all(
            a,
            *b,
            metric=metric,
            partial=partial,
            out=out,
            **tests.arguments(),
            **output.arguments(),
        )
    one, *others = result.comparisons
    output.show(
        lambda: (result if others else one).model_dump_json(indent=2),
        lambda: comparisons_tables(result) if others else comparison_table(one),
        lambda: comparison_rows(result.comparisons),
    )
    output.say_written(out)
    verdicts = {change.verdict for some in result.comparisons for change in some.metrics.values()}
    if gate and "worse" in verdicts:
        raise typer.Exit(GATE_FAILED)
