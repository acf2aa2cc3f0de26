"""`contrapose eval`: ask models, and say what their answers mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.console import console, errors
from contrapose.cli.options import alpha_option
from contrapose.cli.progress import progress
from contrapose.errors import InputError
from contrapose.report import evaluation_tables, show
from contrapose.results import (
    EvalRequest,
    evaluate_models,
    evaluation,
    require_run_place,
    write_run,
)
from contrapose.scoring import default_folder, parse_prior


def evaluate(
    models: Annotated[list[str], typer.Argument(help="The models to ask.")],
    on: Annotated[
        list[str], typer.Option(help="Benchmarks: names or your own files; A,B or repeated.")
    ],
    score: Annotated[
        list[str] | None,
        typer.Option(help="itc, itm, lm, prior; A,B or repeated. Left out: all the model can do."),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(help="The benchmark's folder, or one with a folder of each benchmark's name."),
    ] = None,
    subset: Annotated[
        list[str] | None, typer.Option(help="Only this subset or part; A,B or repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="At most N examples of each subset.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, …")] = "cpu",
    batch_size: Annotated[
        int | None, typer.Option(help="Pairs at once; the model's own suggestion if left out.")
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Where answers are kept. Left out: the user's cache folder."),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Keep nothing, and ask everything again.")
    ] = False,
    prior: Annotated[
        str | None,
        typer.Option(help="noise:3 takes the prior under 3 noise images out of lm (lm-alpha)."),
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="How much of the prior: 0, 1, a number between, or auto.")
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
    if batch_size is not None and batch_size < 1:
        raise InputError(f"--batch-size must be at least 1, found {batch_size}.")
    if cache is not None and no_cache:
        raise InputError("--cache and --no-cache do not go together.")
    request = EvalRequest(
        benchmarks=_words(on),
        scores=_words(score),
        root=root,
        subsets=_words(subset),
        limit=limit,
        device=device,
        batch_size=batch_size,
        cache=None if no_cache else cache or default_folder(),
        prior=None if prior is None else parse_prior(prior, seed=seed),
        alpha=alpha_option(alpha, prior=prior is not None),
        resamples=resamples,
        seed=seed,
    )
    if out is not None:
        require_run_place(out, overwrite=overwrite)
    with progress(quiet=quiet) as told:
        runs = evaluate_models(tuple(dict.fromkeys(models)), request, progress=told)
    if out is not None:
        write_run(runs, out, overwrite=overwrite)
    if as_json:
        typer.echo(evaluation(runs).model_dump_json(indent=2))
    else:
        show(console(), evaluation_tables([run.results for run in runs]))
    if out is not None and not quiet:
        errors().print(f"Written to {out}")


def _words(given: list[str] | None) -> tuple[str, ...]:
    """Options that may be repeated or separated by commas."""
    words = [word.strip() for text in given or () for word in text.split(",")]
    return tuple(dict.fromkeys(word for word in words if word))
