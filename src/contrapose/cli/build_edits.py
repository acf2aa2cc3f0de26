"""`contrapose build edits` and `build review`: generated minimal pairs, and their review."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from contrapose.cli.build_video import BlindModel, Format, PairImageFormat, show_manifest
from contrapose.cli.console import output_console, show
from contrapose.cli.option_groups import (
    BuildOptions,
    CacheOptions,
    WriteOptions,
    dump_json,
    take_options,
)
from contrapose.cli.options import words_option

LARGE_PAGE = 100_000_000
"""Bytes from which on a page is slow to open."""


class Undecided(StrEnum):
    """Treatment of pairs without a decision."""

    keep = "keep"
    drop = "drop"


class PageImages(StrEnum):
    """Images of a review page."""

    inline = "inline"
    beside = "beside"


@dataclass(frozen=True, kw_only=True)
class FilterOptions(CacheOptions):
    """Filter of pairs by a model's scores, and the language model of the audit."""

    filter_by: Annotated[
        str | None,
        typer.Option(
            "--filter",
            help="MODEL or MODEL:score, such as tiny or hf:ORG/NAME:itc, that must prefer the own "
            "caption for both images. Left out: no such filter.",
        ),
    ] = None
    margin: Annotated[float, typer.Option(help="By how much the own caption must score more.")] = (
        0.0
    )
    min_score: Annotated[
        float | None, typer.Option(help="Least score of each image with its own caption.")
    ] = None
    lm: BlindModel = None
    device: Annotated[str, typer.Option(help="Where pipelines and models compute.")] = "auto"


@take_options
def edits(
    generator: Annotated[
        str,
        typer.Argument(
            help="diffusers:FOLDER_OR_ID, http://host/path, openai:MODEL,url=http://host/v1, or "
            "scenes, the built-in renderer."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="The folder to write: images, eqbensd.json, a manifest.")
    ],
    filters: FilterOptions,
    output: BuildOptions,
    pairs: Annotated[int, typer.Option(min=1, help="Caption pairs to draw.")] = 300,
    editor: Annotated[
        str | None,
        typer.Option(
            help="diffusers:FOLDER_OR_ID of a pipeline that edits the first image into the second. "
            "Left out: both images are drawn from one seed."
        ),
    ] = None,
    lists: Annotated[
        str | None,
        typer.Option(help="A JSON file of lists, or eqben or scenes. Left out: as it suits."),
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(help="Kinds of change: object,scene,attribute, or repeated. Left out: all."),
    ] = None,
    bare: Annotated[
        bool,
        typer.Option(
            "--bare/--no-bare",
            help="Whether a caption may leave out what changes, and be true of both images.",
        ),
    ] = True,
    prompt: Annotated[
        str, typer.Option(help="The text that is sent, with {} for the caption.")
    ] = "{}",
    size: Annotated[
        int | None,
        typer.Option(help="Width and height to ask for. Left out: 512, and 96 for scenes."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same captions and seeds.")] = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Pairs at a time. Left out: 4 for a server, else 1.")
    ] = None,
    image_format: Format = PairImageFormat.png,
) -> None:
    """Build minimal pairs with a text-to-image model or an image editor, as EqBen's part SD."""
    from contrapose.api.build_edits import build_edits

    with output.show_progress() as progress:
        manifest = build_edits(
            generator, out=out, pairs=pairs, editor=editor, lists=lists,
            kinds=words_option(kinds) or None, bare=bare, prompt=prompt, size=size, seed=seed,
            workers=workers, image_format=image_format.value, progress=progress,
            **filters.arguments(), **output.arguments(),
        )  # fmt: skip
    if output.dry_run:
        output.show(lambda: dump_json(manifest), lambda: _plan_lines(manifest))
    else:
        show_manifest(manifest, out, output)


@take_options
def review(
    folder: Annotated[
        Path, typer.Argument(help="A set of minimal pairs: of build edits, graph, boundaries, …")
    ],
    filters: FilterOptions,
    output: WriteOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The page, an .html file (left out: beside the folder), or with --decisions or "
            "--filter the folder of the new set."
        ),
    ] = None,
    decisions: Annotated[
        Path | None, typer.Option(help="The file that the page downloads, to be applied.")
    ] = None,
    undecided: Annotated[
        Undecided, typer.Option(help="What becomes of pairs without a decision.")
    ] = Undecided.keep,
    images: Annotated[
        PageImages,
        typer.Option(help="Thumbnails in the page, or links to the images, for very large sets."),
    ] = PageImages.inline,
    side: Annotated[
        int, typer.Option(min=32, rich_help_panel="Images", help="Longest side of a thumbnail.")
    ] = 320,
) -> None:
    """Write a page to keep or drop pairs by keyboard, or apply its decisions to a new set."""
    from contrapose.api.build_edits import build_review

    with output.show_progress() as progress:
        result = build_review(
            folder, out=out, decisions=decisions, undecided=undecided.value, images=images.value,
            side=side, progress=progress, **filters.arguments(), **output.arguments(),
        )  # fmt: skip
    if "page" in result and not output.as_json:
        lines = [f"{result['pairs']:,} pairs in {result['page']}; open it in a browser."]
        if images is PageImages.inline and result["bytes"] > LARGE_PAGE:
            size = result["bytes"] / 1e6
            lines.append(f"It has {size:,.0f} MB; with --images beside it is small.")
        if result["unreadable"]:
            lines.append(f"{result['unreadable']:,} images cannot be read; the page names them.")
        show(
            output_console(),
            [
                *lines,
                "Then: contrapose build review "
                f"{folder} --decisions decisions.json --out {folder}-reviewed",
            ],
        )
    else:
        show_manifest(result, out or folder, output)


def _plan_lines(plan: dict[str, Any]) -> list[str]:
    expected = ", ".join(f"{count:,} {name}" for name, count in plan["expected"].items())
    distinct = ", ".join(f"{count:,} {name}" for name, count in plan["distinct"].items())
    lines = [
        f"{plan['parameters']['generator']}: {expected}; nothing was generated or written.",
        f"The lists have so many different caption pairs: {distinct}.",
    ]
    if plan["repeated"]:
        lines.append(f"{plan['repeated']:,} pairs repeat captions with another seed.")
    for one in plan["shown"]:
        lines.append(
            f"{one['kind']}, seed {one['seed']}: {one['captions'][0]} | {one['captions'][1]}"
        )
    return lines
