"""`contrapose metrics`: metrics of a score file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from contrapose.cli import options
from contrapose.cli.console import echo_json, output_console, say_written, show
from contrapose.errors import InputError

LikelihoodScale = Literal["log", "probability", "inverse-nll"]

app = typer.Typer(add_completion=False)


@app.command()
def metrics(
    benchmark: Annotated[
        str, typer.Argument(help="A benchmark's name, or your own .jsonl, .csv or .parquet file.")
    ],
    scores: Annotated[
        list[Path],
        typer.Option(
            metavar="PATH",
            help="Score file in the benchmark's own layout, a general table (example, "
            "image, text, score), an .npy array, a folder of arrays, or a log as import reads it.",
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
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    every: options.Every = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write a run folder here.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Let --out take the place of an earlier run.")
    ] = False,
) -> None:
    """Say what a file of scores means: accuracies, intervals, chance, ties, and the parts."""
    from contrapose.api.measure import measure
    from contrapose.report.results import results_tables

    if len(scores) > 1:
        raise InputError(
            f"--scores was given {len(scores)} times, and metrics measures one file: run it once "
            "for each, or compare two of them with `contrapose compare A B`."
        )
    run = measure(
        scores[0],
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
    if as_json:
        echo_json(run.results.model_dump_json(indent=2))
    else:
        show(output_console(), results_tables(run.results, every=every))
    say_written(out)
