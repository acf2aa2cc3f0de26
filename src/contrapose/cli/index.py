"""`contrapose index`: embed a folder of images once, so that it can be searched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.console import echo_json, error_console, output_console, show
from contrapose.cli.option_groups import ModelOptions, OutputOptions, dump_json, take_options
from contrapose.cli.options import BatchSize, Workers

app = typer.Typer(add_completion=False)

SHOWN_SKIPS = 10
"""Skipped images that are named in the terminal."""


@app.command()
@take_options
def index(
    images: Annotated[
        Path, typer.Argument(help="A folder of images, or a .txt file with a path a line.")
    ],
    model: Annotated[str, typer.Option(help="A dual encoder, such as tiny-clip or hf:NAME.")],
    loading: ModelOptions,
    output: OutputOptions,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the index. Left out: .contrapose/MODEL in the folder."),
    ] = None,
    batch_size: BatchSize = None,
    workers: Workers = None,
    lance: Annotated[
        str | None,
        typer.Option(help="Also copy the vectors to LanceDB: a folder, or a URL such as s3://…."),
    ] = None,
) -> None:
    """Embed a folder of images once; a second run embeds what is new or changed."""
    from contrapose.api.index import index as build

    with output.show_progress() as progress:
        report = build(
            images,
            model=model,
            out=out,
            batch_size=batch_size,
            workers=workers,
            lance=lance,
            progress=progress,
            **loading.arguments(),
        )
    made = report.index
    counts: dict[str, int] = {
        "images": len(made),
        "added": report.added,
        "changed": report.changed,
        "deleted": report.deleted,
        "unchanged": report.unchanged,
    }
    if output.as_json:
        values = {
            "folder": str(made.folder),
            "model": made.model,
            **counts,
            "skipped": made.skipped,
            "recall": report.recall,
        }
        echo_json(dump_json(values))
        return
    numbers = ", ".join(f"{count:,} {name}" for name, count in list(counts.items())[1:])
    lines = [f"{len(made):,} images indexed by {made.model}: {numbers}."]
    if report.recall is not None:
        lines.append(f"LanceDB finds {report.recall:.1%} of the exact 10 nearest.")
    if made.skipped:
        were = "file was" if len(made.skipped) == 1 else "files were"
        lines.append(f"{len(made.skipped):,} {were} skipped:")
        lines += [f"  {name}: {why}" for name, why in list(made.skipped.items())[:SHOWN_SKIPS]]
        more = len(made.skipped) - SHOWN_SKIPS
        lines += [f"  and {more:,} more, in index.json."] if more > 0 else []
    show(output_console(), lines)
    if not output.quiet:
        error_console().print(f"The index is in {made.folder}", soft_wrap=True)
