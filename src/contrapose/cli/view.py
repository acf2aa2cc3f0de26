"""`contrapose view`: all examples of several runs, side by side, on a page of this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli.console import output_console, show_progress, wait_for_server
from contrapose.cli.options import Quiet

app = typer.Typer(add_completion=False)


@app.command()
def view(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders; FOLDER@tiny,lm is one of several in it.")
    ],
    port: Annotated[int, typer.Option(help="Port; 0 is a free one.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
    quiet: Quiet = False,
) -> None:
    """Look through all examples of runs, side by side: filter, sort, enlarge.

    The page is served to this machine only (127.0.0.1).
    """
    from contrapose.api.view import view as start

    with show_progress(quiet=quiet) as progress:
        server = start(*runs, port=port, progress=progress)
    output_console().print(server.url, soft_wrap=True)
    if browser and _has_screen():
        import webbrowser

        webbrowser.open(server.url)
    wait_for_server(server, quiet=quiet)


def _has_screen() -> bool:
    """Whether a person sits at a screen, so that a browser can be opened."""
    if not sys.stdout.isatty():
        return False
    shown = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, shown))
