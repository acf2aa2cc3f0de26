"""`contrapose eval`: score models on benchmarks."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from contrapose import __version__
from contrapose.cli import options
from contrapose.cli.console import echo, echo_json
from contrapose.cli.option_groups import (
    ResultOptions,
    RunOptions,
    SelectionOptions,
    StatisticsOptions,
    take_options,
)


class LongCaptions(StrEnum):
    """Treatment of captions longer than a model's context."""

    skip = "skip"
    cut = "cut"


app = typer.Typer(add_completion=False)


@app.command()
@take_options
def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(help="The models to ask.", autocompletion=options.complete_models),
    ],
    on: Annotated[
        list[str],
        typer.Option(
            help="Benchmarks: names or your own files; A,B or repeated.",
            autocompletion=options.complete_benchmarks,
        ),
    ],
    selection: SelectionOptions,
    scoring: RunOptions,
    statistics: StatisticsOptions,
    output: ResultOptions,
    score: Annotated[
        list[str] | None,
        typer.Option(
            help="itc, itm, lm, vqa, prior, blind, chat; itc:sum, itc:delta and other fusions for "
            "composed and edit queries; A,B or repeated. Left out: all the model can do "
            "that sees the image, without chat.",
            autocompletion=options.complete_scores,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Threads that decode images, or with --engine ray its workers. Left out: one a "
            "core; with ray one a GPU, or one a machine."
        ),
    ] = None,
    common: Annotated[
        bool,
        typer.Option("--common", help="Only examples, images and captions that no model skipped."),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Whatever cannot be asked ends the run.")
    ] = False,
    long: Annotated[
        LongCaptions,
        typer.Option(help="Captions longer than the model reads: skip them, or cut them."),
    ] = LongCaptions.skip,
    rerank: Annotated[
        str | None,
        typer.Option(
            help="In galleries itm and lm order the K of highest itc of every query; all asks "
            "every pair. Left out: 16 in large galleries."
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="Take the prior out of lm and vqa (lm-alpha, vqa-alpha): under noise:3 images, "
            "images:DIR[:COUNT], or gallery[:COUNT], the benchmark's own."
        ),
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="How much of the prior: 0, 1, a number between, or auto; --prior is noise:3 "
            "unless you say."
        ),
    ] = None,
    question: Annotated[
        str | None, typer.Option(help="What vqa asks; {} stands for the caption.")
    ] = None,
    answer: Annotated[
        str | None, typer.Option(help="The answer whose probability vqa is. Left out: Yes.")
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            help="The text before a caption of lm, for chat models. Left out: the model's own."
        ),
    ] = None,
    oracle: Annotated[
        str | None,
        typer.Option(
            help="Who judges the answers to edit queries: a model with itm, vqa or itc, or a .npy "
            "file of probabilities, images × captions. Left out: the benchmark's own annotation."
        ),
    ] = None,
    protocol: Annotated[
        Literal["strict", "official"],
        typer.Option(
            help="strict: ties are never wins. official: as each benchmark's own script counts, "
            "with the strict figures beside."
        ),
    ] = "strict",
    frames: Annotated[
        str | None,
        typer.Option(
            help="Frames of each video, spread evenly; 8:mean scores every frame by itself also "
            "where the model reads several at once. Left out: 8, or what the model needs."
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            help="Score share i of n, such as 2/8, into the cache, and print no table; auto reads "
            "the numbers of torchrun or Slurm. A run without it makes the table.",
        ),
    ] = None,
    merge: Annotated[
        bool,
        typer.Option(
            "--merge",
            help="Make the table of what shards have scored, and score nothing: where scores are "
            "missing, say which shards lack them, and end with status 2.",
        ),
    ] = False,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(
            rich_help_panel="Model",
            help="local: this process. ray: --workers processes of a Ray cluster, or of this "
            "machine where there is none.",
        ),
    ] = "local",
    out: Annotated[Path | None, typer.Option(help="Write a run folder here.")] = None,
    every: options.Every = False,
) -> None:
    """Ask models about benchmarks: scores, accuracies, intervals. Nothing is asked twice."""
    from contrapose import report
    from contrapose.api.evaluate import evaluate as evaluate_models
    from contrapose.report.evaluation import evaluation_tables
    from contrapose.results.schema import Evaluation

    with output.show_progress() as progress:
        runs = evaluate_models(
            models,
            options.words_option(on),
            score=options.words_option(score) or None,
            workers=workers,
            strict=strict,
            common=common,
            long=long.value,
            rerank=rerank,
            prior=prior,
            alpha=alpha,
            question=question,
            answer=answer,
            prompt=prompt,
            oracle=oracle,
            protocol=protocol,
            frames=frames,
            shard=shard,
            merge=merge,
            engine=engine,
            out=out,
            progress=progress,
            **selection.arguments(),
            **scoring.arguments(),
            **statistics.arguments(),
            **output.arguments(),
        )
    share = getattr(runs, "shard", None)
    if share is not None:
        echo_json(json.dumps(asdict(share))) if output.as_json else echo(str(share))
        return
    results = tuple(run.results for run in runs)
    output.show(
        lambda: Evaluation(contrapose=__version__, runs=results).model_dump_json(indent=2),
        lambda: evaluation_tables(results, every=every),
        lambda: report.result_rows(results),
    )
    output.say_written(out)
