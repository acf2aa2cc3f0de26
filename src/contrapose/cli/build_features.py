"""`contrapose build features`: vectors of images and captions as plain arrays."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli import options
from contrapose.cli.option_groups import (
    CacheOptions,
    ModelOptions,
    WriteOptions,
    dump_json,
    take_options,
)


class FeatureFormat(StrEnum):
    """Number formats of arrays."""

    float16 = "float16"
    float32 = "float32"


@take_options
def features(
    out: Annotated[Path, typer.Option(help="The folder of features; other splits stay.")],
    loading: ModelOptions,
    store: CacheOptions,
    output: WriteOptions,
    images: Annotated[
        Path | None,
        typer.Argument(
            help="A folder of images, or a .txt file with a path a line. With --captions: the "
            "folder where the paths of their images start; left out: beside the captions."
        ),
    ] = None,
    captions: Annotated[
        Path | None,
        typer.Option(
            help="A .jsonl, .csv, .tsv or .parquet table with caption and image, plain text with a "
            "caption a line, or COCO's or Karpathy's .json."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A dual encoder for both sides.", autocompletion=options.complete_models),
    ] = None,
    image_encoder: Annotated[
        str | None, typer.Option(help="An image encoder: a folder, or an id on the hub.")
    ] = None,
    text_encoder: Annotated[
        str | None, typer.Option(help="A sentence encoder: a folder, or an id on the hub.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="train, or test for what heads are measured on.")
    ] = "train",
    save_as: Annotated[
        FeatureFormat, typer.Option(help="Number format of the arrays.")
    ] = FeatureFormat.float32,
    caption_field: Annotated[
        str | None, typer.Option(help="The table's column of captions, if it has another name.")
    ] = None,
    image_field: Annotated[
        str | None, typer.Option(help="The table's column of images, if it has another name.")
    ] = None,
    batch_size: options.BatchSize = None,
    workers: Annotated[int | None, typer.Option(help="Threads that decode images.")] = None,
) -> None:
    """Embed images, captions or both once, for tune heads; goes on where it was stopped."""
    from contrapose.api.build_features import build_features

    with output.show_progress() as progress:
        manifest = build_features(
            images,
            out=out,
            captions=captions,
            model=model,
            image_encoder=image_encoder,
            text_encoder=text_encoder,
            split=split,
            save_as=save_as.value,
            caption_field=caption_field,
            image_field=image_field,
            batch_size=batch_size,
            workers=workers,
            progress=progress,
            **loading.arguments(),
            **store.arguments(),
            **output.arguments(),
        )
    lines = [
        f"{split}_{name}.npy: {' × '.join(f'{size:,}' for size in shape)}"
        for name, shape in manifest["arrays"].items()
    ]
    for count, what in (
        (len(manifest["skipped_images"]), "images"),
        (manifest["skipped_captions"], "captions"),
    ):
        if count:
            lines.append(f"{count:,} {what} left out: see {split}.json.")
    output.show(lambda: dump_json(manifest), lambda: [*lines, f"written to {out}."])
