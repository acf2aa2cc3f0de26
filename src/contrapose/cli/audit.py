"""`contrapose audit`: how much of a benchmark is solved without its images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.console import error_console, output_console, show_progress
from contrapose.cli.options import (
    BatchSize,
    Cache,
    CacheUse,
    CacheUseOption,
    Device,
    Dtype,
    Include,
    NoCache,
    Quiet,
    Resamples,
    Seed,
    TrustRemoteCode,
    cache_option,
    include_files,
    require_positive,
    words_option,
)
from contrapose.engine import parse_prior
from contrapose.errors import InputError
from contrapose.evaluation.audit import AuditRequest, audit_benchmark
from contrapose.files import new_folder, require_free, write_text
from contrapose.models.language import DEFAULT_LANGUAGE_MODEL
from contrapose.models.options import parse_dtype
from contrapose.report import show
from contrapose.report.audit import audit_tables, render_audit
from contrapose.results.schema import AuditReport

NO_LANGUAGE_MODEL = "none"
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
    device: Device = "auto",
    dtype: Dtype = None,
    batch_size: BatchSize = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    cache_use: CacheUseOption = CacheUse.reuse,
    include: Include = None,
    trust_remote_code: TrustRemoteCode = False,
    out: Annotated[
        Path | None, typer.Option(help="Write audit.json and report.html to this folder.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Let --out take the place of an earlier audit.")
    ] = False,
    resamples: Resamples = 10_000,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the audit as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Solve a benchmark without its images: by a language model, priors, length and n-grams."""
    include_files(include)
    require_positive(batch_size=batch_size)
    request = AuditRequest(
        benchmark=benchmark,
        models=words_option(model),
        lm=None if lm == NO_LANGUAGE_MODEL else lm or DEFAULT_LANGUAGE_MODEL,
        lm_needed=lm is not None,
        root=root,
        subsets=words_option(subset),
        limit=limit,
        sample=sample,
        prior=parse_prior(prior, seed=seed),
        ngram_corpus=ngram_corpus,
        likelihoods=likelihoods,
        device=device,
        dtype=None if dtype is None else parse_dtype(dtype),
        batch_size=batch_size,
        cache=cache_option(cache, none=no_cache),
        cache_use=cache_use.value,
        trust_remote_code=trust_remote_code,
        resamples=resamples,
        seed=seed,
    )
    if out is not None:
        _require_output(out, overwrite=overwrite)
    with show_progress(quiet=quiet) as told:
        report = audit_benchmark(request, progress=told)
    if out is not None:
        _write_audit(report, out, overwrite=overwrite)
    if as_json:
        typer.echo(report.model_dump_json(indent=2))
    else:
        show(output_console(), audit_tables(report))
    if out is not None and not quiet:
        error_console().print(f"Written to {out}")


def _require_output(out: Path, *, overwrite: bool) -> None:
    """Require that `out` is free or holds an earlier audit.

    Raises:
        InputError: the place is taken by something else.
    """
    require_free(out, overwrite=overwrite)
    if out.is_dir() and any(out.iterdir()) and not (out / RESULTS).is_file():
        raise InputError("holds no audit, and is not written over; choose another.", file=out)


def _write_audit(report: AuditReport, out: Path, *, overwrite: bool) -> None:
    with new_folder(out, overwrite=overwrite) as folder:
        write_text(folder / RESULTS, report.model_dump_json(indent=2) + "\n")
        write_text(folder / REPORT, render_audit(report))
