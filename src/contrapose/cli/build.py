"""`contrapose build`: what is made here, written to disk."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.console import console
from contrapose.cli.pairs import pairs
from contrapose.errors import InputError
from contrapose.report import show

app = typer.Typer(no_args_is_help=True, help="Build benchmarks, and pairs to learn from.")
app.command("pairs")(pairs)


class World(StrEnum):
    """The forms of the benchmark."""

    balanced = "balanced"
    skewed = "skewed"


@app.command("scenes")
def scenes(
    out: Annotated[Path, typer.Option(help="The folder to write; a folder in it for each part.")],
    part: Annotated[
        list[str] | None, typer.Option(help="A part, such as swap-relation; may be repeated.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every part; so it is without --part.")
    ] = False,
    examples: Annotated[int, typer.Option(help="Examples of each part.")] = 200,
    seed: Annotated[int, typer.Option(help="Same seed, same examples.")] = 0,
    size: Annotated[int, typer.Option(help="Width and height of the pictures.")] = 96,
    world: Annotated[
        World, typer.Option(help="Balanced, or as skewed as the training set.")
    ] = World.balanced,
    masks: Annotated[
        bool, typer.Option("--masks", help="Also write which thing each pixel belongs to.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a folder that is there.")
    ] = False,
) -> None:
    """Write the benchmark `scenes` as images and annotation files of public formats."""
    from contrapose.world.benchmark import PARTS
    from contrapose.world.benchmark.write import build_scenes

    if every and part:
        raise InputError("pass either --part or --all, not both.")
    if seed < 0:
        raise InputError(f"--seed must not be negative, and is {seed}.")
    manifest = build_scenes(
        out,
        tuple(part or PARTS),
        form=world.value,
        examples=examples,
        seed=seed,
        size=size,
        masks=masks,
        overwrite=overwrite,
    )
    lines = [
        f"{name}: {made['examples']} examples, {made['images']} images; read with {_hint(made)}"
        for name, made in manifest["parts"].items()
    ]
    show(console(), [*lines, f"written to {out}, with a manifest."])


def _hint(made: dict[str, str]) -> str:
    reader = made["read_with"]
    return f"the file {reader}" if reader.endswith(".jsonl") else reader
