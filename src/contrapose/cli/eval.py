"""`contrapose eval`: ask models, and say what their answers mean."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.console import console, errors
from contrapose.cli.options import (
    Ask,
    Asked,
    BatchSize,
    Cache,
    Device,
    Dtype,
    Include,
    NoCache,
    Quiet,
    Resamples,
    Seed,
    TrustRemoteCode,
    Workers,
    alpha_option,
    cache_option,
    include_files,
    require_positive,
    words_option,
)
from contrapose.cli.progress import progress
from contrapose.errors import InputError
from contrapose.models.options import parse_dtype
from contrapose.report import evaluation_tables, show
from contrapose.results import (
    EvalRequest,
    Run,
    evaluate_models,
    evaluation,
    require_run_place,
    write_run,
)
from contrapose.scoring import parse_prior, parse_question

USUAL_PRIOR = "noise:3"
REPORT = "report.html"


class Long(StrEnum):
    """What becomes of captions that are longer than a model reads."""

    skip = "skip"
    cut = "cut"


def evaluate(
    models: Annotated[list[str], typer.Argument(help="The models to ask.")],
    on: Annotated[
        list[str], typer.Option(help="Benchmarks: names or your own files; A,B or repeated.")
    ],
    score: Annotated[
        list[str] | None,
        typer.Option(
            help="itc, itm, lm, vqa, prior, blind, chat; A,B or repeated. Left out: all the model "
            "can do that sees the image, without chat."
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(help="The benchmark's folder, or one with a folder of each benchmark's name."),
    ] = None,
    subset: Annotated[
        list[str] | None, typer.Option(help="Only this subset or part; A,B or repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="At most N examples of each subset.")] = None,
    device: Device = "auto",
    dtype: Dtype = None,
    batch_size: BatchSize = None,
    workers: Workers = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    ask: Ask = Asked.missing,
    strict: Annotated[
        bool, typer.Option("--strict", help="Whatever cannot be asked ends the run.")
    ] = False,
    long: Annotated[
        Long, typer.Option(help="Captions longer than the model reads: skip them, or cut them.")
    ] = Long.skip,
    rerank: Annotated[
        str | None,
        typer.Option(
            help="In galleries itm and lm order the K of highest itc of every query; all asks "
            "every pair. Left out: 16 in large galleries."
        ),
    ] = None,
    include: Include = None,
    trust_remote_code: TrustRemoteCode = False,
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
    out: Annotated[Path | None, typer.Option(help="Write a run folder here.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Let --out take the place of an earlier run.")
    ] = False,
    resamples: Resamples = 10_000,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Ask models about benchmarks: scores, accuracies, intervals. Nothing is asked twice."""
    include_files(include)
    require_positive(batch_size=batch_size, workers=workers)
    if prior is None and alpha is not None:
        prior = USUAL_PRIOR
    request = EvalRequest(
        benchmarks=words_option(on),
        scores=words_option(score),
        root=root,
        subsets=words_option(subset),
        limit=limit,
        device=device,
        dtype=None if dtype is None else parse_dtype(dtype),
        batch_size=batch_size,
        workers=workers,
        cache=cache_option(cache, none=no_cache),
        ask=ask.value,
        strict=strict,
        long=long.value,
        rerank=_rerank(rerank),
        trust_remote_code=trust_remote_code,
        prior=None if prior is None else parse_prior(prior, seed=seed),
        alpha=alpha_option(alpha, prior=prior is not None),
        question=parse_question(question, answer),
        tokens=out is not None,
        resamples=resamples,
        seed=seed,
    )
    if out is not None:
        require_run_place(out, overwrite=overwrite)
    with progress(quiet=quiet) as told:
        runs = evaluate_models(tuple(dict.fromkeys(models)), request, progress=told)
    if out is not None:
        write_run(runs, out, overwrite=overwrite, beside={REPORT: _page(runs)})
    if as_json:
        typer.echo(evaluation(runs).model_dump_json(indent=2))
    else:
        show(console(), evaluation_tables([run.results for run in runs]))
    if out is not None and not quiet:
        errors().print(f"Written to {out}")


def _page(runs: Sequence[Run]) -> str:
    """The results as a page to look at."""
    from contrapose.report.html import Report, render_report

    results = [run.results for run in runs]
    names = (
        dict.fromkeys(run.model for run in results),
        dict.fromkeys(r.benchmark for r in results),
    )
    asked, on = (", ".join(str(name) for name in some) for some in names)
    return render_report(Report(title=f"{asked} on {on}", runs=results))


def _rerank(text: str | None) -> int | None:
    """How many of each query are asked; 0 for all, None when the user does not say."""
    if text is None:
        return None
    if text == "all":
        return 0
    if not text.isdecimal():
        raise InputError(f"--rerank must be a number or all, found {text!r}.")
    return int(text)
