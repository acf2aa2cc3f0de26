"""`contrapose check`: validate data on disk, and models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli import options
from contrapose.cli.console import error_console
from contrapose.cli.option_groups import (
    ModelOptions,
    PrintOptions,
    SelectionOptions,
    take_options,
)

CHECK_FAILED = 1


@dataclass(frozen=True, kw_only=True)
class DataSelection(SelectionOptions):
    """Choice of a benchmark's examples, of which nothing is fetched."""

    root: Annotated[
        Path | None, typer.Option(help="The benchmark's folder. Left out: the cache.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class CheckOptions(ModelOptions):
    """Loading of a model that is checked, on the CPU unless another device is named."""

    device: options.Device = "cpu"
    dtype: Annotated[
        str | None,
        typer.Option(help="fp32, bf16 or fp16: also says how far apart answers may be."),
    ] = None


app = typer.Typer(add_completion=False, no_args_is_help=True, help="Check data and models.")


@app.command("data")
@take_options
def data(
    benchmark: Annotated[
        str,
        typer.Argument(
            help="A benchmark's name, or your own .jsonl, .csv or .parquet file.",
            autocompletion=options.complete_benchmarks,
        ),
    ],
    selection: DataSelection,
    output: PrintOptions,
    images: Annotated[
        bool, typer.Option("--images/--no-images", help="Open every image, or none.")
    ] = True,
    every: Annotated[
        bool, typer.Option("--all", help="Name every problem, not the first of each kind.")
    ] = False,
) -> None:
    """Count examples, open images, and report what is missing, malformed or twice there."""
    from contrapose.api.check import check_data
    from contrapose.report.catalog import data_report_json, data_report_parts

    with _show_images(shown=images) as progress:
        reports = check_data(
            benchmark,
            images=images,
            progress=progress,
            **selection.arguments(),
        )
    for report in reports:
        output.show(
            partial(data_report_json, report), partial(data_report_parts, report, every=every)
        )
    if not all(report.ok for report in reports):
        raise typer.Exit(CHECK_FAILED)


@app.command("model")
@take_options
def model(
    name: Annotated[
        str, typer.Argument(help="A model's name, my_package:MyModel, or my_file.py:MyModel.")
    ],
    loading: CheckOptions,
    output: PrintOptions,
) -> None:
    """Ask a model small questions and report whether it does what scoring relies on."""
    from contrapose.api.check import check_model
    from contrapose.report.catalog import model_report_json, model_report_parts

    report = check_model(name, **loading.arguments())
    output.show(lambda: model_report_json(report), lambda: model_report_parts(report))
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
