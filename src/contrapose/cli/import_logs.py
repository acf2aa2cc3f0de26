"""`contrapose import`: other programs' logs of each item as runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli import options
from contrapose.cli.console import echo_json, output_console, say_written, show
from contrapose.cli.options import Every, Quiet, Resamples, Seed

app = typer.Typer(add_completion=False)


@app.command("import")
def import_logs(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG…",
            help="Samples of lm-eval or lmms-eval, .eval or .json logs of inspect, predictions of "
            "mteb, result tables of VLMEvalKit.",
        ),
    ],
    model: Annotated[
        str | None, typer.Option(help="Name of the model. Left out: the log's.")
    ] = None,
    resamples: Resamples = 10_000,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write a run folder here.")] = None,
    overwrite: options.Overwrite = False,
    every: Every = False,
    as_json: options.AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Read other programs' logs of each item as runs, for compare and rank."""
    from contrapose.api.import_logs import import_logs as read
    from contrapose.report.evaluation import evaluation_tables
    from contrapose.results.runs import build_evaluation

    runs = read(logs, model=model, resamples=resamples, seed=seed, out=out, overwrite=overwrite)
    if as_json:
        echo_json(build_evaluation([run.record for run in runs]).model_dump_json(indent=2))
    else:
        show(output_console(), evaluation_tables(runs.results, every=every))
    say_written(out, quiet=quiet)
