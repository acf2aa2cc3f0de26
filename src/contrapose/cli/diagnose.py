"""`contrapose diagnose`: explain failures by words, regions, and both."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli import options
from contrapose.cli.option_groups import (
    RunOptions,
    SelectionOptions,
    StatisticsOptions,
    WriteOptions,
    take_options,
)


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


@dataclass(frozen=True, kw_only=True)
class DiagnosisSelection(SelectionOptions):
    """Choice of a benchmark's examples; of `scenes` the parts of the paper, unless named."""

    subset: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this subset or part; A,B or repeated. Of scenes: location, attribute, "
            "swap-attribute and swap-relation, unless you say."
        ),
    ] = None


app = typer.Typer(add_completion=False)


@app.command()
@take_options
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
    selection: DiagnosisSelection,
    scoring: RunOptions,
    statistics: StatisticsOptions,
    output: WriteOptions,
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
    workers: options.Workers = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write diagnosis.json, per-example tables and report.html here."),
    ] = None,
) -> None:
    """Hide words and regions, and see what a model reacts to when captions or images change."""
    from contrapose.api.diagnose import diagnose as diagnose_models
    from contrapose.report.diagnosis import diagnosis_tables

    with output.show_progress() as progress:
        run = diagnose_models(
            models,
            on,
            side=None if side is None else side.value,
            players=players.value,
            baseline=baseline,
            score=score,
            groups=groups,
            regions=regions,
            superpixels=superpixels,
            tagger=tagger.value,
            preset=preset,
            workers=workers,
            out=out,
            progress=progress,
            **selection.arguments(),
            **scoring.arguments(),
            **statistics.arguments(),
            **output.arguments(),
        )
    output.show(lambda: run.report.model_dump_json(indent=2), lambda: diagnosis_tables(run.report))
    output.say_written(out)
