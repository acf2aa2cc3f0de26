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
from contrapose.cli.console import echo_json, say_written, show_as, show_progress


class LongCaptions(StrEnum):
    """Treatment of captions longer than a model's context."""

    skip = "skip"
    cut = "cut"


app = typer.Typer(add_completion=False)


@app.command()
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
    score: Annotated[
        list[str] | None,
        typer.Option(
            help="itc, itm, lm, vqa, prior, blind, chat; itc:sum, itc:delta and other fusions for "
            "composed and edit queries; A,B or repeated. Left out: all the model can do "
            "that sees the image, without chat.",
            autocompletion=options.complete_scores,
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            help="The benchmark's folder, or one with a folder of each benchmark's name. Left out: "
            "what is missing is fetched."
        ),
    ] = None,
    subset: options.Subset = None,
    limit: options.Limit = None,
    device: options.Device = "auto",
    dtype: options.Dtype = None,
    batch_size: options.BatchSize = None,
    workers: options.Workers = None,
    cache: options.Cache = None,
    no_cache: options.NoCache = False,
    cache_use: options.CacheUseOption = options.CacheUse.reuse,
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
    include: options.Include = None,
    trust_remote_code: options.TrustRemoteCode = False,
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
            "the numbers of torchrun or Slurm. A run without it makes the table."
        ),
    ] = None,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(
            help="local: this process. ray: --workers processes of a Ray cluster, or of this "
            "machine where there is none."
        ),
    ] = "local",
    out: Annotated[Path | None, typer.Option(help="Write a run folder here.")] = None,
    overwrite: options.Overwrite = False,
    resamples: options.Resamples = 10_000,
    seed: options.Seed = 0,
    every: options.Every = False,
    form: options.Format = None,
    offline: options.Offline = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Ask models about benchmarks: scores, accuracies, intervals. Nothing is asked twice."""
    from contrapose.api.evaluate import evaluate as evaluate_models
    from contrapose.report.evaluation import evaluation_tables
    from contrapose.report.formats import result_rows
    from contrapose.results.schema import Evaluation

    options.require_one_format(as_json, form)
    options.include_files(include)
    with show_progress(quiet=quiet) as progress:
        runs = evaluate_models(
            models,
            options.words_option(on),
            score=options.words_option(score) or None,
            root=root,
            subset=options.words_option(subset),
            limit=limit,
            device=device,
            dtype=dtype,
            batch_size=batch_size,
            workers=workers,
            cache=options.cache_option(cache, no_cache),
            cache_use=cache_use.value,
            strict=strict,
            common=common,
            long=long.value,
            rerank=rerank,
            trust_remote_code=trust_remote_code,
            prior=prior,
            alpha=alpha,
            question=question,
            answer=answer,
            prompt=prompt,
            oracle=oracle,
            protocol=protocol,
            frames=frames,
            shard=shard,
            engine=engine,
            out=out,
            overwrite=overwrite,
            resamples=resamples,
            seed=seed,
            offline=offline,
            progress=progress,
        )
    report = getattr(runs, "shard", None)
    if report is not None:
        echo_json(json.dumps(asdict(report))) if as_json else typer.echo(str(report))
        return
    results = tuple(run.results for run in runs)
    if as_json:
        echo_json(Evaluation(contrapose=__version__, runs=results).model_dump_json(indent=2))
    else:
        show_as(form, evaluation_tables(results, every=every), lambda: result_rows(results))
    say_written(out, quiet=quiet)
