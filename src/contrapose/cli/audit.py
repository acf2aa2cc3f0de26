"""`contrapose audit`: how much of a benchmark can be solved without looking?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose import models as models_of
from contrapose.cli.console import console, errors
from contrapose.cli.eval import Asked
from contrapose.cli.progress import progress
from contrapose.errors import InputError
from contrapose.files import new_folder, require_free, write_text
from contrapose.models.language import DEFAULT
from contrapose.models.options import parse_dtype
from contrapose.report import audit_tables, show
from contrapose.results.audit import AuditReport, AuditRequest, audit_benchmark
from contrapose.scoring import default_folder, parse_prior

NONE = "none"
RESULTS, REPORT = "audit.json", "report.html"


def audit(
    benchmark: Annotated[
        str, typer.Argument(help="A benchmark's name, or your own .jsonl, .csv or .parquet file.")
    ],
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
    root: Annotated[
        Path | None, typer.Option(help="The benchmark's folder; no images are needed.")
    ] = None,
    subset: Annotated[
        list[str] | None, typer.Option(help="Only this subset or part; A,B or repeated.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="At most the first N examples of each subset.")
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
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:1, …; auto takes cuda where there is some.")
    ] = "auto",
    dtype: Annotated[
        str | None, typer.Option(help="fp32, bf16 or fp16: what the models compute in.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Captions at once. Left out: found by itself.")
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option(help="Where answers are kept. Left out: the user's cache folder."),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Keep nothing, and ask everything again.")
    ] = False,
    ask: Annotated[
        Asked,
        typer.Option(help="What the cache does not know, everything again, or nothing."),
    ] = Asked.missing,
    include: Annotated[
        list[Path] | None,
        typer.Option(help="A Python file that registers models or benchmarks; may be repeated."),
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the weights.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write audit.json and report.html to this folder.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Let --out take the place of an earlier audit.")
    ] = False,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the audit as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Solve a benchmark without its images: by a language model, priors, length and n-grams."""
    for path in include or ():
        models_of.include(path)
    if batch_size is not None and batch_size < 1:
        raise InputError(f"--batch-size must be at least 1, found {batch_size}.")
    if cache is not None and no_cache:
        raise InputError("--cache and --no-cache do not go together.")
    request = AuditRequest(
        benchmark=benchmark,
        models=_words(model),
        lm=None if lm == NONE else lm or DEFAULT,
        lm_needed=lm is not None,
        root=root,
        subsets=_words(subset),
        limit=limit,
        sample=sample,
        prior=parse_prior(prior, seed=seed),
        ngram_corpus=ngram_corpus,
        likelihoods=likelihoods,
        device=device,
        dtype=None if dtype is None else parse_dtype(dtype),
        batch_size=batch_size,
        cache=None if no_cache else cache or default_folder(),
        ask=ask.value,
        trust_remote_code=trust_remote_code,
        resamples=resamples,
        seed=seed,
    )
    if out is not None:
        _require_place(out, overwrite=overwrite)
    with progress(quiet=quiet) as told:
        report = audit_benchmark(request, progress=told)
    if out is not None:
        _write(report, out, overwrite=overwrite)
    if as_json:
        typer.echo(report.model_dump_json(indent=2))
    else:
        show(console(), audit_tables(report))
    if out is not None and not quiet:
        errors().print(f"Written to {out}")


def _require_place(out: Path, *, overwrite: bool) -> None:
    """Only an earlier audit may be written over.

    Raises:
        InputError: the place is taken by something else.
    """
    require_free(out, overwrite=overwrite)
    if out.is_dir() and any(out.iterdir()) and not (out / RESULTS).is_file():
        raise InputError("holds no audit, and is not written over; choose another.", file=out)


def _write(report: AuditReport, out: Path, *, overwrite: bool) -> None:
    from contrapose.report.html.audit import render_audit

    with new_folder(out, overwrite=overwrite) as folder:
        write_text(folder / RESULTS, report.model_dump_json(indent=2) + "\n")
        write_text(folder / REPORT, render_audit(report))


def _words(given: list[str] | None) -> tuple[str, ...]:
    """Options that may be repeated or separated by commas."""
    words = [word.strip() for text in given or () for word in text.split(",")]
    return tuple(dict.fromkeys(word for word in words if word))
