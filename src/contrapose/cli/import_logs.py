"""`contrapose import`: other programs' logs of each item as runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.option_groups import StatisticsOptions, WriteOptions, take_options
from contrapose.cli.options import Every

app = typer.Typer(add_completion=False)


@app.command("import")
@take_options
def import_logs(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG…",
            help="Samples of lm-eval or lmms-eval, .eval or .json logs of inspect, predictions of "
            "mteb, result tables of VLMEvalKit.",
        ),
    ],
    statistics: StatisticsOptions,
    output: WriteOptions,
    model: Annotated[
        str | None, typer.Option(help="Name of the model. Left out: the log's.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write a run folder here.")] = None,
    every: Every = False,
) -> None:
    """Read other programs' logs of each item as runs, for compare and rank."""
    from contrapose.api.import_logs import import_logs as read
    from contrapose.report.evaluation import evaluation_tables
    from contrapose.results.runs import build_evaluation

    runs = read(logs, model=model, out=out, **statistics.arguments(), **output.arguments())
    output.show(
        lambda: build_evaluation([run.record for run in runs]).model_dump_json(indent=2),
        lambda: evaluation_tables(runs.results, every=every),
    )
    output.say_written(out)
