"""`contrapose audit`: how much of a benchmark is solved without its images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli import options
from contrapose.cli.option_groups import (
    ResultOptions,
    RunOptions,
    SelectionOptions,
    StatisticsOptions,
    take_options,
)

app = typer.Typer(add_completion=False)


@app.command()
@take_options
def audit(
    benchmark: Annotated[
        str,
        typer.Argument(
            help="A benchmark's name, or your own .jsonl, .csv or .parquet file.",
            autocompletion=options.complete_benchmarks,
        ),
    ],
    selection: SelectionOptions,
    scoring: RunOptions,
    statistics: StatisticsOptions,
    output: ResultOptions,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A captioner whose own prior is taken, under --prior; may be repeated."),
    ] = None,
    lm: Annotated[
        str | None,
        typer.Option(
            help="The blind language model: lm:smollm2, lm:ORG/NAME, lm:FOLDER, or none. Left "
            "out: lm:smollm2, where it is installed."
        ),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(help="At most N examples of each subset, drawn at random.")
    ] = None,
    prior: Annotated[
        str, typer.Option(help="The images of a --model's prior: noise:3, or images:DIR[:COUNT].")
    ] = "noise:3",
    ngram_corpus: Annotated[
        Path | None,
        typer.Option(
            help="Captions to fit the n-gram model to, a line each. Left out: the benchmark's "
            "own, cross-fitted."
        ),
    ] = None,
    likelihoods: Annotated[
        Path | None,
        typer.Option(
            help="A captioner's scores under the images: which parts does it win by prior alone?"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write audit.json and report.html to this folder.")
    ] = None,
) -> None:
    """Solve a benchmark without its images: by a language model, priors, length and n-grams."""
    from contrapose.api.audit import audit as audit_benchmark
    from contrapose.report.audit import audit_tables
    from contrapose.report.formats import audit_rows

    with output.show_progress() as progress:
        report = audit_benchmark(
            benchmark,
            model=options.models_option(model),
            lm=lm,
            sample=sample,
            prior=prior,
            ngram_corpus=ngram_corpus,
            likelihoods=likelihoods,
            out=out,
            progress=progress,
            **selection.arguments(),
            **scoring.arguments(),
            **statistics.arguments(),
            **output.arguments(),
        )
    output.show(
        lambda: report.model_dump_json(indent=2),
        lambda: audit_tables(report),
        lambda: audit_rows(report),
    )
    output.say_written(out)
