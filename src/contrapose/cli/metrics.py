"""`contrapose metrics`: metrics of a score file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from contrapose import __version__
from contrapose.cli import options
from contrapose.cli.console import echo_json, say_written, show_as

LikelihoodScale = Literal["log", "probability", "inverse-nll"]

app = typer.Typer(add_completion=False)


@app.command()
def metrics(
    benchmark: Annotated[
        str,
        typer.Argument(
            help="A benchmark's name, or your own .jsonl, .csv or .parquet file.",
            autocompletion=options.complete_benchmarks,
        ),
    ],
    scores: Annotated[
        list[Path],
        typer.Option(
            metavar="PATH",
            help="Score file in the benchmark's own layout, a general table (example, "
            "image, text, score), an .npy array, a folder of arrays, or a log as import reads it; "
            "may be repeated, which shows the files side by side. Of a file with several scores "
            "each is measured, or FILE@SCORE.",
        ),
    ],
    root: Annotated[
        Path | None,
        typer.Option(
            help="The benchmark's folder: adds tags and clusters by image; needs no images."
        ),
    ] = None,
    prior: Annotated[
        Path | None,
        typer.Option(help="Log P(T) of every caption: a table or array without images."),
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(help="How much of the prior to take out: 0, 1, a number between, or auto."),
    ] = None,
    likelihood_as: Annotated[
        LikelihoodScale,
        typer.Option(help="What the captioner's scores are, when a prior is given."),
    ] = "log",
    prior_as: Annotated[
        LikelihoodScale | None,
        typer.Option(help="The same for the prior; as the scores by default."),
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="Break down by this tag; may be repeated.")
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option(
            help="[NAME=]FILE: a JSON object of example id → tag or tags; may be repeated."
        ),
    ] = None,
    protocol: Annotated[
        Literal["strict", "official"],
        typer.Option(
            help="strict: ties are never wins. official: as the benchmark's own script counts, "
            "with the strict figures beside."
        ),
    ] = "strict",
    threshold: Annotated[
        float | None,
        typer.Option(help="Score above which a caption counts as fitting (VALSE, VSR)."),
    ] = None,
    dev_scores: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Scores of other pairs, by which the best threshold of yes/no judgements is "
            "chosen. Left out: cross-fitted.",
        ),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Allow examples without scores.")
    ] = False,
    resamples: options.Resamples = 10_000,
    seed: options.Seed = 0,
    every: options.Every = False,
    form: options.Format = None,
    as_json: options.AsJson = False,
    out: Annotated[Path | None, typer.Option(help="Write a run folder here.")] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Say what a file of scores means: accuracies, intervals, chance, ties, and the parts."""
    from contrapose.api.measure import measure_files
    from contrapose.report.evaluation import evaluation_tables
    from contrapose.report.formats import result_rows
    from contrapose.report.results import columns_tables, results_tables
    from contrapose.results import Evaluation

    options.require_one_format(as_json, form)
    runs = measure_files(
        scores,
        benchmark,
        root=root,
        prior=prior,
        alpha=alpha,
        likelihood_as=likelihood_as,
        prior_as=prior_as,
        by=by,
        tags=tags,
        protocol=protocol,
        threshold=threshold,
        dev_scores=dev_scores,
        partial=partial,
        resamples=resamples,
        seed=seed,
        out=out,
        overwrite=overwrite,
    )
    results = runs.results
    if as_json and len(results) == 1:
        echo_json(results[0].model_dump_json(indent=2))
    elif as_json:
        evaluation = Evaluation(contrapose=__version__, runs=tuple(results))
        echo_json(evaluation.model_dump_json(indent=2))
    elif len(results) == 1:
        show_as(form, results_tables(results[0], every=every), lambda: result_rows(results))
    elif len(scores) == 1:
        show_as(form, columns_tables(results), lambda: result_rows(results))
    else:
        show_as(form, evaluation_tables(results, every=every), lambda: result_rows(results))
    say_written(out)
