"""`contrapose check`: validate data on disk, and models."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from contrapose.cli.console import error_console, output_console
from contrapose.data import Benchmark, Suite, find_benchmark, is_user_file
from contrapose.data.check import DataReport, check_data
from contrapose.errors import InputError
from contrapose.models.options import parse_dtype
from contrapose.report import show
from contrapose.report.catalog import (
    data_report_json,
    data_report_parts,
    model_report_json,
    model_report_parts,
)

CHECK_FAILED = 1

app = typer.Typer(no_args_is_help=True, help="Check data and models.")


@app.command("data")
def data(
    benchmark: Annotated[
        str, typer.Argument(help="A benchmark's name, or your own .jsonl, .csv or .parquet file.")
    ],
    root: Annotated[Path | None, typer.Option(help="The benchmark's folder.")] = None,
    images: Annotated[
        bool, typer.Option("--images/--no-images", help="Open every image, or none.")
    ] = True,
    every: Annotated[
        bool, typer.Option("--all", help="Name every problem, not the first of each kind.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Count examples, open images, and report what is missing, malformed or twice there."""
    found = find_benchmark(benchmark)
    parts = tuple(found.parts.values()) if isinstance(found, Suite) else (found,)
    reports = [
        _check_with_progress(part, _data_folder(benchmark, part, root), images) for part in parts
    ]
    for report in reports:
        if as_json:
            typer.echo(data_report_json(report))
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
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Ask a model small questions and report whether it does what scoring relies on."""
    # Pictures are drawn and models loaded from here on.
    from contrapose.files.plugins import include
    from contrapose.models import load_model
    from contrapose.models.conformance import check_model

    for file in include_files or ():
        include(file)
    load = partial(
        load_model, name, device=device, dtype=dtype, trust_remote_code=trust_remote_code
    )
    report = check_model(load(), load=load, dtype=None if dtype is None else parse_dtype(dtype))
    if as_json:
        typer.echo(model_report_json(report))
    else:
        show(output_console(), model_report_parts(report))
    if not report.ok:
        raise typer.Exit(CHECK_FAILED)


def _data_folder(name: str, benchmark: Benchmark, root: Path | None) -> Path:
    """Folder of the benchmark's files; generated benchmarks have none."""
    if root is not None:
        return root
    if is_user_file(name):
        return Path(name).parent
    if benchmark.generated:
        return Path()
    layout = benchmark.card.layout.replace("\n", "; ")
    raise InputError(
        f"pass --root DIR, the folder of {name} ({layout}). "
        f"Files from: {benchmark.card.source}. Licence: {benchmark.card.licence}."
    )


def _check_with_progress(benchmark: Benchmark, root: Path, images: bool) -> DataReport:
    """Check a benchmark, with a progress bar in a terminal."""
    screen = error_console()
    if not images or not screen.is_terminal:
        return check_data(benchmark, root, images=images)
    columns = (
        TextColumn("opening images"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("images", total=None)
        return check_data(
            benchmark,
            root,
            images=images,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
