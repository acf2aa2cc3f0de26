"""`contrapose audit`: how much of a benchmark is solved without its images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli import options
from contrapose.cli.console import echo_json, say_written, show_as, show_progress

app = typer.Typer(add_completion=False)


@app.command()
def audit(
    benchmark: Annotated[
        str,
        typer.Argument(
            help="A benchmark's name, or your own .jsonl, .csv or .parquet file.",
            autocompletion=options.complete_benchmarks,
        ),
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
        Path | None,
        typer.Option(help="The benchmark's folder; no images are needed. Left out: fetched."),
    ] = None,
    subset: options.Subset = None,
    limit: options.Limit = None,
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
    device: options.Device = "auto",
    dtype: options.Dtype = None,
    batch_size: options.BatchSize = None,
    cache: options.Cache = None,
    no_cache: options.NoCache = False,
    cache_use: options.CacheUseOption = options.CacheUse.reuse,
    include: options.Include = None,
    trust_remote_code: options.TrustRemoteCode = False,
    out: Annotated[
        Path | None, typer.Option(help="Write audit.json and report.html to this folder.")
    ] = None,
    overwrite: options.Overwrite = False,
    resamples: options.Resamples = 10_000,
    seed: options.Seed = 0,
    form: options.Format = None,
    offline: options.Offline = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Solve a benchmark without its images: by a language model, priors, length and n-grams."""
    from contrapose.api.audit import audit as audit_benchmark
    from contrapose.report.audit import audit_tables
    from contrapose.report.formats import audit_rows

    options.require_one_format(as_json, form)
    options.include_files(include)
    with show_progress(quiet=quiet) as progress:
        report = audit_benchmark(
            benchmark,
            model=options.models_option(model),
            lm=lm,
            root=root,
            subset=options.words_option(subset),
            limit=limit,
            sample=sample,
            prior=prior,
            ngram_corpus=ngram_corpus,
            likelihoods=likelihoods,
            device=device,
            dtype=dtype,
            batch_size=batch_size,
            cache=options.cache_option(cache, no_cache),
            cache_use=cache_use.value,
            trust_remote_code=trust_remote_code,
            out=out,
            overwrite=overwrite,
            resamples=resamples,
            seed=seed,
            offline=offline,
            progress=progress,
        )
    if as_json:
        echo_json(report.model_dump_json(indent=2))
    else:
        show_as(form, audit_tables(report), lambda: audit_rows(report))
    say_written(out, quiet=quiet)
