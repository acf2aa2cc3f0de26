"""`contrapose explain`: what each word and region of one pair adds to the score."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.console import error_console, output_console, show_progress
from contrapose.cli.diagnose import PlayersOption, TaggerOption
from contrapose.cli.options import (
    Cache,
    Device,
    Dtype,
    Include,
    NoCache,
    Quiet,
    Seed,
    TrustRemoteCode,
    cache_option,
    include_files,
)
from contrapose.errors import InputError
from contrapose.files import write_text
from contrapose.models.options import parse_dtype
from contrapose.report import show


def explain(
    model: Annotated[str, typer.Argument(help="The model to ask.")],
    image: Annotated[Path, typer.Option(help="A picture.")],
    text: Annotated[str, typer.Option(help="A caption.")],
    against: Annotated[
        str | None, typer.Option(help="Another caption, to compare with the first.")
    ] = None,
    players: Annotated[
        PlayersOption,
        typer.Option(help="Word groups; every word by itself; patches of the image."),
    ] = PlayersOption.groups,
    groups: Annotated[
        str | None,
        typer.Option(help='Word groups: "O=cat,mat;R=sits on", or a .jsonl file with the image.'),
    ] = None,
    regions: Annotated[
        str | None,
        typer.Option(
            help='Regions: "O1=X,Y,WIDTH,HEIGHT;O2=mask.png", or a .jsonl file whose id is the '
            "image's name."
        ),
    ] = None,
    superpixels: Annotated[
        int | None, typer.Option(help="How many, with --players superpixels. Left out: 8.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="What stands in place of what is hidden, as in diagnose. Left out: zero"),
    ] = None,
    score: Annotated[
        str | None, typer.Option(help="itc, itm, lm or vqa. Left out: the model's first.")
    ] = None,
    tagger: Annotated[
        TaggerOption, typer.Option(help="Parts of speech of captions that follow no template.")
    ] = TaggerOption.textblob,
    device: Device = "auto",
    dtype: Dtype = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    include: Include = None,
    trust_remote_code: TrustRemoteCode = False,
    out: Annotated[Path | None, typer.Option(help="Write a page to this .html file.")] = None,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Say what each word group and region of one pair adds to a model's score."""
    from contrapose.diagnose.explain import ExplainRequest, explain_pair
    from contrapose.diagnose.regions import DEFAULT_SUPERPIXELS
    from contrapose.diagnose.run import choose_baseline
    from contrapose.report.diagnosis import explanation_tables

    include_files(include)
    if superpixels is not None and players != PlayersOption.superpixels:
        raise InputError("--superpixels says how many: pass --players superpixels too.")
    if out is not None and (out.is_dir() or out.suffix != ".html"):
        raise InputError("must be a file whose name ends in .html.", file=out)
    request = ExplainRequest(
        image=image,
        text=text,
        against=against,
        players=players.value,
        superpixels=DEFAULT_SUPERPIXELS if superpixels is None else superpixels,
        groups=groups,
        regions=regions,
        tagger=tagger.value,
        baseline=choose_baseline(baseline, None, seed),
        score=score,
        device=device,
        dtype=None if dtype is None else parse_dtype(dtype),
        cache=cache_option(cache, none=no_cache),
        trust_remote_code=trust_remote_code,
    )
    with show_progress(quiet=quiet) as progress:
        explanation = explain_pair(model, request, progress=progress)
    if out is not None:
        from contrapose.report.html.diagnosis import render_explanation

        try:
            write_text(out, render_explanation(explanation))
        except OSError as error:
            raise InputError(f"cannot be written ({error.strerror}).", file=out) from None
    if as_json:
        typer.echo(explanation.value.model_dump_json(indent=2))
    else:
        show(output_console(), explanation_tables(explanation.value))
    if out is not None and not quiet:
        error_console().print(f"Written to {out}")
