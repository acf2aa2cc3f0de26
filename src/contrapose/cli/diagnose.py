"""`contrapose diagnose`: why does a model fail, by words, by regions, and between the two?"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from contrapose import models as models_of
from contrapose.cli.console import console, errors
from contrapose.cli.eval import Asked
from contrapose.cli.progress import progress
from contrapose.errors import InputError
from contrapose.models.options import parse_dtype
from contrapose.report import show
from contrapose.scoring import default_folder

REPORT = "report.html"


class SideOption(StrEnum):
    """Who plays."""

    text = "text"
    image = "image"
    mutual = "mutual"
    all = "all"


class PlayersOption(StrEnum):
    """What a player is."""

    groups = "groups"
    words = "words"
    superpixels = "superpixels"


class TaggerOption(StrEnum):
    """Who says what part of speech a word is."""

    textblob = "textblob"
    spacy = "spacy"


def diagnose(
    models: Annotated[list[str], typer.Argument(help="The models to diagnose.")],
    on: Annotated[str, typer.Option(help="A benchmark: its name, or your own file.")],
    side: Annotated[
        SideOption | None,
        typer.Option(
            help="Words of two captions, regions of two images, both at once, or all three. Left "
            "out: all where there are regions, else text."
        ),
    ] = None,
    players: Annotated[
        PlayersOption,
        typer.Option(help="Word groups and objects; every word by itself; patches of the image."),
    ] = PlayersOption.groups,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="What stands in place of hidden words (zero, pad, mask, delete) and regions "
            "(zero, mean, blur, noise): a name, or one of each, as delete,blur. Left out: zero."
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(help="itc, itm, lm or vqa. Left out: the first that the model gives."),
    ] = None,
    root: Annotated[Path | None, typer.Option(help="The benchmark's folder.")] = None,
    subset: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this subset or part; A,B or repeated. Of scenes: location, attribute, "
            "swap-attribute and swap-relation, unless you say."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="At most N examples of each subset.")] = None,
    groups: Annotated[
        Path | None,
        typer.Option(help="Your own word groups: a .jsonl file with id, caption and spans."),
    ] = None,
    regions: Annotated[
        Path | None,
        typer.Option(
            help="Your own regions: a .jsonl file with id, image and regions (masks, COCO RLE, "
            "polygons, boxes), or a folder of masks ID/IMAGE/O1.png."
        ),
    ] = None,
    superpixels: Annotated[
        int | None, typer.Option(help="How many, with --players superpixels. Left out: 8.")
    ] = None,
    tagger: Annotated[
        TaggerOption, typer.Option(help="Parts of speech of captions that follow no template.")
    ] = TaggerOption.textblob,
    preset: Annotated[
        str | None, typer.Option(help="released: as the authors' script of the text side does.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:1, …; auto takes cuda where there is some.")
    ] = "auto",
    dtype: Annotated[
        str | None, typer.Option(help="fp32, bf16 or fp16: what the model computes in.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Images, captions or pairs at once. Left out: by itself.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Threads that decode images. Left out: one a core.")
    ] = None,
    cache: Annotated[
        str | None, typer.Option(help="Where answers are kept. Left out: the user's cache folder.")
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Keep nothing, and ask everything again.")
    ] = False,
    ask: Annotated[
        Asked, typer.Option(help="What the cache does not know, everything again, or nothing.")
    ] = Asked.missing,
    include: Annotated[
        list[Path] | None,
        typer.Option(help="A Python file that registers models or benchmarks; may be repeated."),
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the weights.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write diagnosis.json, per-example tables and report.html here."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Let --out take the place of an earlier diagnosis.")
    ] = False,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the diagnosis as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Hide words and regions, and see what a model reacts to when captions or images change."""
    from contrapose.diagnose.folder import require_diagnosis_place, write_diagnosis
    from contrapose.diagnose.request import DiagnoseRequest, baseline_for
    from contrapose.diagnose.run import diagnose_models
    from contrapose.diagnose.superpixels import USUAL
    from contrapose.report.diagnosis import diagnosis_tables

    for path in include or ():
        models_of.include(path)
    for name, given in (("--batch-size", batch_size), ("--workers", workers)):
        if given is not None and given < 1:
            raise InputError(f"{name} must be at least 1, found {given}.")
    if cache is not None and no_cache:
        raise InputError("--cache and --no-cache do not go together.")
    if superpixels is not None and players != PlayersOption.superpixels:
        raise InputError("--superpixels says how many: pass --players superpixels too.")
    request = DiagnoseRequest(
        benchmark=on,
        side=None if side is None else side.value,
        players=players.value,
        superpixels=USUAL if superpixels is None else superpixels,
        baseline=baseline_for(baseline, preset, seed),
        score=score,
        root=root,
        subsets=_words(subset),
        limit=limit,
        groups=groups,
        regions=regions,
        tagger=tagger.value,
        preset=preset,
        device=device,
        dtype=None if dtype is None else parse_dtype(dtype),
        batch_size=batch_size,
        workers=workers,
        cache=None if no_cache else cache or default_folder(),
        ask=ask.value,
        trust_remote_code=trust_remote_code,
        resamples=resamples,
        seed=seed,
    )
    if out is not None:
        require_diagnosis_place(out, overwrite=overwrite)
    with progress(quiet=quiet) as told:
        run = diagnose_models(tuple(dict.fromkeys(models)), request, progress=told)
    if out is not None:
        from contrapose.report.html.diagnosis import render_diagnosis

        page = render_diagnosis(run)
        write_diagnosis(run, out, overwrite=overwrite, beside={REPORT: page})
    if as_json:
        typer.echo(run.report.model_dump_json(indent=2))
    else:
        show(console(), diagnosis_tables(run.report))
    if out is not None and not quiet:
        errors().print(f"Written to {out}")


def _words(given: list[str] | None) -> tuple[str, ...]:
    """Options that may be repeated or separated by commas."""
    words = [word.strip() for text in given or () for word in text.split(",")]
    return tuple(dict.fromkeys(word for word in words if word))
