"""The `contrapose` command: its verbs and its error handling."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from contrapose import __version__
from contrapose.cli import build, check, compare, listing, metrics, tune
from contrapose.cli.audit import audit
from contrapose.cli.demo import demo
from contrapose.cli.diagnose import diagnose
from contrapose.cli.eval import evaluate
from contrapose.cli.explain import explain
from contrapose.cli.export import export
from contrapose.cli.tune_heads import tune_heads
from contrapose.errors import ContraposeError, command_line_names

app = typer.Typer(
    name="contrapose",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measures compositional understanding in vision-language models: does the model notice "
    "the small change that flips the meaning?",
)
app.command("demo")(demo)
app.command("eval")(evaluate)
app.command("metrics")(metrics.metrics)
app.command("compare")(compare.compare)
app.command("audit")(audit)
app.command("diagnose")(diagnose)
app.command("explain")(explain)
app.command("export")(export)
app.add_typer(listing.app, name="list")
app.add_typer(check.app, name="check")
app.add_typer(build.app, name="build")
tune.app.command("heads")(tune_heads)
app.add_typer(tune.app, name="tune")

BAD_INPUT = 2
"""Exit status for input that cannot be used; 1 is kept for a check or a gate that fails."""


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"contrapose {__version__}")
        raise typer.Exit


@app.callback()
def _common_options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options of every verb; `main` looks for --debug itself."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; errors that the user can fix are printed as one sentence."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with command_line_names():
            app(args=words)
    except ContraposeError as error:
        if "--debug" in words:
            raise
        print(f"contrapose: {error}", file=sys.stderr)
        raise SystemExit(BAD_INPUT) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(0) from None
