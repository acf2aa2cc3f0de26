"""`contrapose metrics`: metrics of a score file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from contrapose import __version__
from contrapose.cli import options
from contrapose.cli.console import show_phase
from contrapose.cli.option_groups import ResultOptions, StatisticsOptions, take_options

if TYPE_CHECKING:
    from contrapose.report import Table

LikelihoodScale = Literal["log", "probability", "inverse-nll"]

app = typer.Typer(add_completion=False)


@app.command()
@take_options
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
    statistics: StatisticsOptions,
    output: ResultOptions,
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
    every: options.Every = False,
    out: Annotated[Path | None, typer.Option(help="Write a run folder here.")] = None,
) -> None:
    """Say what a file of scores means: accuracies, intervals, chance, ties, and the parts."""
    from contrapose.api.measure import measure_files
    from contrapose.report.evaluation import evaluation_tables
    from contrapose.report.formats import result_rows
    from contrapose.report.results import columns_tables, results_tables
    from contrapose.results import Evaluation

    with show_phase("reading and measuring scores", quiet=output.quiet):
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
            out=out,
            **statistics.arguments(),
            **output.arguments(),
        )
    results = tuple(runs.results)

    def to_json() -> str:
        evaluation = Evaluation(contrapose=__version__, runs=results)
        return (results[0] if len(results) == 1 else evaluation).model_dump_json(indent=2)

    def tables() -> list[Table | str]:
        if len(results) == 1:
            return results_tables(results[0], every=every)
        if len(scores) == 1:
            return columns_tables(results)
        return evaluation_tables(results, every=every)

    output.show(to_json, tables, lambda: result_rows(results))
    output.say_written(out)
