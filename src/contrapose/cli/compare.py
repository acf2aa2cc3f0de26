"""`contrapose compare`: paired comparison of two runs on the same examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from contrapose.cli.console import echo_json, output_console, show

GATE_FAILED = 1

app = typer.Typer(add_completion=False)


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="The first score file or run folder: the baseline.")],
    b: Annotated[Path, typer.Argument(help="The second, of the same examples: the candidate.")],
    on: Annotated[
        str | None,
        typer.Option(help="The benchmark, where the files do not tell: a name, or your own file."),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="The benchmark's folder, for clusters by image.")
    ] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="Exit with 1 when B is significantly worse.")
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
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare two score files or runs of the same examples, pair by pair."""
    from contrapose.api.compare import compare as compare_runs
    from contrapose.report.comparison import comparison_table

    comparison = compare_runs(
        a,
        b,
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
    )
    if as_json:
        echo_json(comparison.model_dump_json(indent=2))
    else:
        show(output_console(), comparison_table(comparison))
    if gate and any(change.verdict == "worse" for change in comparison.metrics.values()):
        raise typer.Exit(GATE_FAILED)
