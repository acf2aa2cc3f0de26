"""`contrapose serve`: a web page on this machine that searches an index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.console import error_console, output_console
from contrapose.cli.options import (
    Device,
    Dtype,
    Include,
    IndexModel,
    Quiet,
    Styles,
    Subjects,
    TrustRemoteCode,
    include_files,
)

app = typer.Typer(add_completion=False)


@app.command()
def serve(
    where: Annotated[
        Path, typer.Argument(help="A folder of images that was indexed, or the index itself.")
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 is every network of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 is a free one.")] = 8000,
    model: IndexModel = None,
    subjects: Subjects = None,
    styles: Styles = None,
    device: Device = "auto",
    dtype: Dtype = None,
    include: Include = None,
    trust_remote_code: TrustRemoteCode = False,
    quiet: Quiet = False,
) -> None:
    """Open a web page that searches a folder: drop an image, type an edit, move λ."""
    from contrapose.api.serve import serve as start
    from contrapose.engine.corpora import read_texts

    include_files(include)
    server = start(
        where,
        host=host,
        port=port,
        model=model,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
        subjects=None if subjects is None else read_texts(subjects),
        styles=None if styles is None else read_texts(styles),
    )
    if not server.is_local:
        error_console().print(
            f"Warning: --host {host} lets everyone who reaches this port see all images of the "
            "index; there is no password.",
            soft_wrap=True,
        )
    output_console().print(server.url, soft_wrap=True)
    if not quiet:
        error_console().print("Stop it with Ctrl-C.")
    try:
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
