"""`contrapose eval`: ask models, and say what their answers mean."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from contrapose import models as models_of
from contrapose.cli.console import console, errors
from contrapose.cli.options import alpha_option
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
from contrapose.scoring import default_folder, parse_prior, parse_question

USUAL_PRIOR = "noise:3"
REPORT = "report.html"


class Asked(StrEnum):
    """What to do with what the cache knows."""

    missing = "missing"
    all = "all"
    none = "none"


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
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:1, …; auto takes cuda where there is some.")
    ] = "auto",
    dtype: Annotated[
        str | None, typer.Option(help="fp32, bf16 or fp16: what the model computes in.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Pairs at once. Left out: found by itself.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Threads that decode images. Left out: one a core.")
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option(
            help="Where answers are kept: a folder, or a URL such as s3://…. Left out: the user's "
            "cache folder."
        ),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Keep nothing, and ask everything again.")
    ] = False,
    ask: Annotated[
        Asked,
        typer.Option(help="What the cache does not know, everything again, or nothing."),
    ] = Asked.missing,
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
    include: Annotated[
        list[Path] | None,
        typer.Option(help="A Python file that registers models or benchmarks; may be repeated."),
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the weights.")
    ] = False,
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
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Ask models about benchmarks: scores, accuracies, intervals. Nothing is asked twice."""
    for path in include or ():
        models_of.include(path)
    for name, number in (("--batch-size", batch_size), ("--workers", workers)):
        if number is not None and number < 1:
            raise InputError(f"{name} must be at least 1, found {number}.")
    if cache is not None and no_cache:
        raise InputError("--cache and --no-cache do not go together.")
    if prior is None and alpha is not None:
        prior = USUAL_PRIOR
    request = EvalRequest(
        benchmarks=_words(on),
        scores=_words(score),
        root=root,
        subsets=_words(subset),
        limit=limit,
        device=device,
        dtype=None if dtype is None else parse_dtype(dtype),
        batch_size=batch_size,
        workers=workers,
        cache=None if no_cache else cache or default_folder(),
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


def _words(given: list[str] | None) -> tuple[str, ...]:
    """Options that may be repeated or separated by commas."""
    words = [word.strip() for text in given or () for word in text.split(",")]
    return tuple(dict.fromkeys(word for word in words if word))
