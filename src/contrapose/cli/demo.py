"""`contrapose demo`: the built-in models on the built-in world, as a table and a report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from contrapose.cli import options
from contrapose.cli.console import output_console, show, show_progress
from contrapose.cli.option_groups import CacheOptions, take_options
from contrapose.errors import InputError

MODELS = ("tiny", "tiny-clip")
BENCHMARK = "scenes"

REPORT, RUN = "report.html", "run"
EXAMPLES = 60
"""Of each change: fewer are faster, more give narrower intervals."""

TITLE = "Two small models on the built-in world"
LEAD = (
    "Each model sees an image and captions that differ in one small thing: a color, a relation, "
    "who has which attribute. Does it prefer the right one? tiny was trained to contrast (itc), to "
    "match (itm) and to write captions (lm; lm-alpha is lm with the language prior taken out); "
    "tiny-clip to contrast alone. Both were trained on the same kind of images."
)

app = typer.Typer(add_completion=False)


@app.command()
@take_options
def demo(
    store: CacheOptions,
    out: Annotated[Path, typer.Option(help="The folder for the report and the run.")] = Path(
        "contrapose-demo"
    ),
    examples: Annotated[
        int, typer.Option("--limit", min=2, help="At most N examples of each change.")
    ] = EXAMPLES,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of all that is random; the scenes stay.")
    ] = 0,
    quiet: options.Quiet = False,
) -> None:
    """Ask the built-in models about built-in scenes: a table, and a report with images."""
    from contrapose.api.evaluate import evaluate
    from contrapose.report.evaluation import evaluation_tables
    from contrapose.report.html import write_report
    from contrapose.results import write_run

    _require_output(out)
    with show_progress(quiet=quiet) as progress:
        runs = evaluate(
            MODELS,
            BENCHMARK,
            limit=examples,
            prior="noise:3",
            seed=seed,
            progress=progress,
            **store.arguments(),
        )
    results = [run.results for run in runs]
    records = [run.record for run in runs]
    try:
        write_run(records, out / RUN, overwrite=True)
        write_report(records, out / REPORT, title=TITLE, lead=LEAD)
    except OSError as error:
        raise InputError(f"cannot be written to ({error.strerror}).", file=out) from None
    show(
        output_console(),
        [
            *(part for part in evaluation_tables(results) if not isinstance(part, str)),
            f"Report: {out / REPORT} (open it in a browser). Run folder: {out / RUN}.",
        ],
    )


def _require_output(out: Path) -> None:
    """Require, before the work, that the results can be written without hiding other files.

    Raises:
        InputError: no folder can be made or written here, or another's files have our names.
    """
    from contrapose.results import is_run, require_run_target

    require_run_target(out / RUN, overwrite=True)
    if (out / REPORT).exists() and not is_run(out / RUN):
        raise InputError(
            "is there and was not made by this command; choose another --out.", file=out / REPORT
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made ({error.strerror}).", file=out) from None
    if not os.access(out, os.W_OK | os.X_OK):
        raise InputError("cannot be written to (Permission denied).", file=out)
