"""`contrapose search`: find images by text, by image, and by image with a change."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.option_groups import (
    IndexOptions,
    OutputOptions,
    dump_json,
    take_options,
)
from contrapose.errors import InputError

app = typer.Typer(add_completion=False)


class FusionOption(StrEnum):
    """Fusions of an image and a text."""

    text = "text"
    image = "image"
    sum = "sum"
    product = "product"
    weicom = "weicom"
    delta = "delta"
    basic = "basic"


@app.command()
@take_options
def search(
    where: Annotated[
        Path, typer.Argument(help="A folder of images that was indexed, or the index itself.")
    ],
    indexed: IndexOptions,
    output: OutputOptions,
    words: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Free text; the same as --text.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Free text.")] = None,
    image: Annotated[Path | None, typer.Option(help="An image to start from.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(help='Words to replace: "cat -> dog"; may be repeated. A side may be empty.'),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="A word to avoid; may be repeated.")
    ] = None,
    fusion: Annotated[
        FusionOption | None,
        typer.Option(help="How image and text are combined. Left out: delta for changes, weicom."),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option("--lambda", help="How strong the change is. Left out: by the index itself."),
    ] = None,
    captions: Annotated[
        Path | None,
        typer.Option(help="Captions, one a line: changes are mean differences of captions."),
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="How many images.")] = 10,
    lance: Annotated[
        str | None, typer.Option(help="Search the copy that index made in LanceDB there.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write a contact sheet, .png or .html, or a .json file.")
    ] = None,
) -> None:
    """Find images by text, by image, or by an image with something changed."""
    from contrapose.api.search import search as find
    from contrapose.report.contact_sheet import result_tables

    if words is not None and text is not None:
        raise InputError(f"the text is given twice: {words!r}, and --text {text!r}.")
    result = find(
        where,
        text=text if words is None else words,
        image=image,
        change=change or (),
        without=without,
        fusion=None if fusion is None else fusion.value,
        scale=scale,
        captions=captions,
        k=k,
        lance=lance,
        out=out,
        **indexed.arguments(),
    )
    output.show(lambda: dump_json(result.to_dict()), lambda: result_tables(result))
    output.say_written(out)
