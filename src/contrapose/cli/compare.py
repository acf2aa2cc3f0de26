"""`contrapose compare`: paired comparison of runs with a baseline, on the same examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from contrapose.cli import options
from contrapose.cli.console import echo_json, say_written, show_as
from contrapose.cli.options import Format, Resamples, Seed, require_one_format

GATE_FAILED = 1

app = typer.Typer(add_completion=False)


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="The first score file or run folder: the baseline.")],
    b: Annotated[
        list[Path],
        typer.Argument(
            metavar="B…", help="The candidates, of the same examples: each is compared with A."
        ),
    ],
    on: Annotated[
        str | None,
        typer.Option(help="The benchmark, where the files do not tell: a name, or your own file."),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="The benchmark's folder, for clusters by image.")
    ] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit with 1 when a candidate is significantly worse.")
    ] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Compare this metric; may be repeated. All shares by default."),
    ] = None,
    test: Annotated[
        Literal["midp", "exact"], typer.Option(help="Which of McNemar's tests for 0/1 outcomes.")
    ] = "midp",
    level: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Significance level, after Holm's correction.")
    ] = 0.05,
    protocol: Annotated[
        Literal["strict", "official"], typer.Option(help="As in metrics.")
    ] = "strict",
    threshold: Annotated[float | None, typer.Option(help="As in metrics.")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Compare on the examples that both have.")
    ] = False,
    resamples: Resamples = 10_000,
    seed: Seed = 0,
    form: Format = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write a folder with report.html: the examples of both, side by side."),
    ] = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare score files or runs of the same examples with a baseline, pair by pair."""
    from contrapose.api.compare import compare_all
    from contrapose.report.comparison import comparison_table, comparisons_tables
    from contrapose.report.formats import comparison_rows

    require_one_format(as_json, form)
    result = compare_all(
        a,
        *b,
        on=on,
        root=root,
        metric=metric,
        test=test,
        level=level,
        protocol=protocol,
        threshold=threshold,
        partial=partial,
        resamples=resamples,
        seed=seed,
        out=out,
        overwrite=overwrite,
    )
    one, *others = result.comparisons
    if as_json:
        echo_json((result if others else one).model_dump_json(indent=2))
    else:
        tables = comparisons_tables(result) if others else comparison_table(one)
        show_as(form, tables, lambda: comparison_rows(result.comparisons))
    say_written(out)
    verdicts = {change.verdict for some in result.comparisons for change in some.metrics.values()}
    if gate and "worse" in verdicts:
        raise typer.Exit(GATE_FAILED)
