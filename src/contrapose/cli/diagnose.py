"""`contrapose diagnose`: explain failures by words, regions, and both."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli import options
from contrapose.cli.console import echo_json, output_console, say_written, show, show_progress


class SideOption(StrEnum):
    """Side of the game: text, image, both, or all."""

    text = "text"
    image = "image"
    mutual = "mutual"
    all = "all"


class PlayersOption(StrEnum):
    """Players of the game."""

    groups = "groups"
    words = "words"
    superpixels = "superpixels"


class TaggerOption(StrEnum):
    """Part-of-speech taggers for captions that follow no template."""

    textblob = "textblob"
    spacy = "spacy"


app = typer.Typer(add_completion=False)


@app.command()
def diagnose(
    models: Annotated[
        list[str],
        typer.Argument(help="The models to diagnose.", autocompletion=options.complete_models),
    ],
    on: Annotated[
        str,
        typer.Option(
            help="A benchmark: its name, or your own file.",
            autocompletion=options.complete_benchmarks,
        ),
    ],
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
        typer.Option(
            help="itc, itm, lm or vqa. Left out: the first that the model gives.",
            autocompletion=options.complete_scores,
        ),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="The benchmark's folder. Left out: fetched.")
    ] = None,
    subset: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this subset or part; A,B or repeated. Of scenes: location, attribute, "
            "swap-attribute and swap-relation, unless you say."
        ),
    ] = None,
    limit: options.Limit = None,
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
    device: options.Device = "auto",
    dtype: options.Dtype = None,
    batch_size: options.BatchSize = None,
    workers: options.Workers = None,
    cache: options.Cache = None,
    no_cache: options.NoCache = False,
    cache_use: options.CacheUseOption = options.CacheUse.reuse,
    include: options.Include = None,
    trust_remote_code: options.TrustRemoteCode = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write diagnosis.json, per-example tables and report.html here."),
    ] = None,
    overwrite: options.Overwrite = False,
    resamples: options.Resamples = 10_000,
    seed: options.Seed = 0,
    offline: options.Offline = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Hide words and regions, and see what a model reacts to when captions or images change."""
    from contrapose.api.diagnose import diagnose as diagnose_models
    from contrapose.report.diagnosis import diagnosis_tables

    options.include_files(include)
    with show_progress(quiet=quiet) as progress:
        run = diagnose_models(
            models,
            on,
            side=None if side is None else side.value,
            players=players.value,
            baseline=baseline,
            score=score,
            root=root,
            subset=options.words_option(subset),
            limit=limit,
            groups=groups,
            regions=regions,
            superpixels=superpixels,
            tagger=tagger.value,
            preset=preset,
            device=device,
            dtype=dtype,
            batch_size=batch_size,
            workers=workers,
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
        echo_json(run.report.model_dump_json(indent=2))
    else:
        show(output_console(), diagnosis_tables(run.report))
    say_written(out, quiet=quiet)
