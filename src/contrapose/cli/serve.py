"""`contrapose serve`: a web page on this machine that searches an index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.console import error_console, output_console, wait_for_server
from contrapose.cli.option_groups import IndexOptions, take_options
from contrapose.cli.options import Quiet

app = typer.Typer(add_completion=False)


@app.command()
@take_options
def serve(
    where: Annotated[
        Path, typer.Argument(help="A folder of images that was indexed, or the index itself.")
    ],
    indexed: IndexOptions,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 is every network of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 is a free one.")] = 8000,
    quiet: Quiet = False,
) -> None:
    """Open a web page that searches a folder: drop an image, type an edit, move λ."""
    from contrapose.api.serve import serve as start

    server = start(
        where,
        host=host,
        port=port,
        **indexed.arguments(),
    )
    if not server.is_local:
        error_console().print(
            f"Warning: --host {host} lets everyone who reaches this port see all images of the "
            "index; there is no password.",
            soft_wrap=True,
        )
    output_console().print(server.url, soft_wrap=True)
    wait_for_server(server, quiet=quiet)
