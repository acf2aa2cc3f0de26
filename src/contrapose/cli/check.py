"""`contrapose check`: validate data on disk, and models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli import options
from contrapose.cli.console import echo_json, error_console, output_console, show

CHECK_FAILED = 1

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Check data and models.")


@app.command("data")
def data(
    benchmark: Annotated[
        str,
        typer.Argument(
            help="A benchmark's name, or your own .jsonl, .csv or .parquet file.",
            autocompletion=options.complete_benchmarks,
        ),
    ],
    root: Annotated[
        Path | None, typer.Option(help="The benchmark's folder. Left out: the cache.")
    ] = None,
    subset: options.Subset = None,
    limit: options.Limit = None,
    images: Annotated[
        bool, typer.Option("--images/--no-images", help="Open every image, or none.")
    ] = True,
    every: Annotated[
        bool, typer.Option("--all", help="Name every problem, not the first of each kind.")
    ] = False,
    offline: options.Offline = False,
    as_json: options.AsJson = False,
) -> None:
    """Count examples, open images, and report what is missing, malformed or twice there."""
    from contrapose.api.check import check_data
    from contrapose.report.catalog import data_report_json, data_report_parts

    with _show_images(shown=images) as progress:
        reports = check_data(
            benchmark,
            root=root,
            subset=options.words_option(subset),
            limit=limit,
            images=images,
            offline=offline,
            progress=progress,
        )
    for report in reports:
        if as_json:
            echo_json(data_report_json(report))
        else:
            show(output_console(), data_report_parts(report, every=every))
    if not all(report.ok for report in reports):
        raise typer.Exit(CHECK_FAILED)


@app.command("model")
def model(
    name: Annotated[
        str, typer.Argument(help="A model's name, my_package:MyModel, or my_file.py:MyModel.")
    ],
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, … or auto.")] = "cpu",
    dtype: Annotated[
        str | None,
        typer.Option(help="fp32, bf16 or fp16: also says how far apart answers may be."),
    ] = None,
    include_files: Annotated[
        list[str] | None,
        typer.Option("--include", help="A Python file that adds models; may be repeated."),
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the weights.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Ask a model small questions and report whether it does what scoring relies on."""
    from contrapose.api.check import check_model
    from contrapose.files import include
    from contrapose.report.catalog import model_report_json, model_report_parts

    for file in include_files or ():
        include(file)
    report = check_model(name, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
    if as_json:
        echo_json(model_report_json(report))
    else:
        show(output_console(), model_report_parts(report))
    if not report.ok:
        raise typer.Exit(CHECK_FAILED)


@contextmanager
def _show_images(*, shown: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Progress bar of opened images in a terminal; None elsewhere."""
    screen = error_console()
    if not shown or not screen.is_terminal:
        yield None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("opening images"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("images", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
