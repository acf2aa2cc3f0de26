"""`contrapose export`: a run folder in another program's format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli import options
from contrapose.cli.console import output_console, show

app = typer.Typer(add_completion=False)


@app.command()
def export(
    run: Annotated[
        Path, typer.Argument(help="A run folder, as --out of eval and metrics writes it.")
    ],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    format: Annotated[  # noqa: A002 - the option's name
        str, typer.Option(help="lm-eval, mteb, model-index, fiftyone, cirr, circo or eqben.")
    ],
    time: Annotated[
        str | None,
        typer.Option(
            help="When the run was, such as 2026-01-31T12:00:00 (UTC): in names and dates. "
            "Left out: when the run folder was written."
        ),
    ] = None,
    overwrite: options.Overwrite = False,
    root: Annotated[
        Path | None,
        typer.Option(
            help="Folder of EqBen's annotations, for the order of its submission. Left out: the "
            "--root that the run was made with."
        ),
    ] = None,
) -> None:
    """Write a run's results as lm-eval or mteb would, or as a submission to a server."""
    from contrapose.api.export import export as export_run

    files = export_run(run, out=out, format=format, time=time, overwrite=overwrite, root=root)
    show(output_console(), [f"{len(files):,} files in the shape of {format} written to {out}."])
