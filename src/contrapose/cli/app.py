"""The `contrapose` command: its verbs and its error handling."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from contrapose import __version__
from contrapose.cli.console import accept_all_characters, discard_output, flush_output
from contrapose.cli.help import add_help
from contrapose.errors import (
    ContraposeError,
    DamageWarning,
    command_line_names,
    first_line,
    hide_credentials,
    printable,
)

VERBS = {
    "demo": "demo",
    "eval": "eval",
    "metrics": "metrics",
    "compare": "compare",
    "rank": "rank",
    "view": "view",
    "audit": "audit",
    "diagnose": "diagnose",
    "explain": "explain",
    "import": "import_logs",
    "export": "export",
    "list": "listing",
    "data": "data",
    "check": "check",
    "build": "build",
    "tune": "tune",
    "index": "index",
    "search": "search",
    "serve": "serve",
}
"""Verb → its module in `contrapose.cli`, whose `app` it is, in the order of the help."""


class _Verbs(TyperGroup):
    """Command group that imports a verb's module when the verb is named."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the verbs."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Command of a verb; None where there is none."""
        if cmd_name not in VERBS:
            for name in VERBS:  # a name that comes near is looked for among all
                self.get_command(ctx, name)
            return None
        self.commands[cmd_name] = _load_command(cmd_name)
        return self.commands[cmd_name]


@cache
def _load_command(verb: str) -> Any:
    """Command of a verb, made once however often `main` is called."""
    command = typer.main.get_command(import_module(f"contrapose.cli.{VERBS[verb]}").app)
    command.name = verb
    return add_help(command, verb)


app = typer.Typer(
    name="contrapose",
    cls=_Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measures compositional understanding in vision-language models: does the model notice "
    "the small change that flips the meaning?",
)

BAD_INPUT = 2
"""Exit status for input that cannot be used; 1 is kept for a check or a gate that fails."""

FAULT = 70
"""Exit status of an unexpected error, as BSD's `EX_SOFTWARE`."""

INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
"""Exit statuses after Ctrl-C and after SIGTERM, as of a shell."""


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
    """Options of every verb; `main` looks for --debug itself, before or behind the verb."""


_show_other_warning = warnings.showwarning


def _show_warning(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
    if issubclass(category, DamageWarning):
        _print_error(str(message))
    else:
        _show_other_warning(message, category, *where, **more)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; every failure ends in one sentence, and in a traceback with --debug.

    An error that the user can fix has the status 2, a fault of the program the status 70. Ctrl-C
    and SIGTERM end a command alike: what has arrived is stored first.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    accept_all_characters()
    try:
        with command_line_names(words), warnings.catch_warnings(), _stop_gently() as signals:
            warnings.simplefilter("always", DamageWarning)
            warnings.showwarning = _show_warning
            try:
                code = app(
                    args=[word for word in words if word != "--debug"],
                    prog_name="contrapose",
                    standalone_mode=False,
                )
            finally:
                flush_output()
    except BrokenPipeError:
        discard_output()
        raise SystemExit(0) from None
    except Exception as error:
        if hasattr(error, "format_message"):  # words that typer does not understand
            _show_usage_error(error)
            raise SystemExit(BAD_INPUT) from None
        if isinstance(error, OSError):
            discard_output()
        if debug:
            raise
        _print_error(_describe_error(error))
        fixable = isinstance(error, ContraposeError | OSError | MemoryError)
        raise SystemExit(BAD_INPUT if fixable else FAULT) from None
    if code == INTERRUPTED:
        _print_error(
            f"{'terminated' if signals else 'interrupted'}; everything that was stored is kept."
        )
        code = TERMINATED if signals else INTERRUPTED
    raise SystemExit(code if isinstance(code, int) else 0)


@contextmanager
def _stop_gently() -> Iterator[list[int]]:
    """Let SIGTERM end the command as Ctrl-C does; the list holds the signals that came."""
    came: list[int] = []
    process = os.getpid()

    def interrupt(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != process:  # a fork of this process, which stores nothing
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        came.append(number)
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield came
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _show_usage_error(error: Any) -> None:
    """Print an error of the words of a command in one sentence; a command without words its help.

    Typer brings its own copy of click, so that the error is known by what it can do.
    """
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "contrapose"
    message = " ".join(error.format_message().split()).rstrip(".?")
    question = "?" if "Did you mean" in message else "."
    _print_error(f"{message}{question} See {command} -h.")


def _print_error(message: str) -> None:
    """Print a sentence on standard error, if that can be written to."""
    with suppress(OSError, ValueError):
        message = hide_credentials(f"contrapose: {message}")
        print(printable(message), file=sys.stderr or sys.__stderr__, flush=True)


def _describe_error(error: Exception) -> str:
    """Describe any error in one sentence."""
    if isinstance(error, ContraposeError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"memory ran out ({first_line(error)}); ask for less at once."
    if isinstance(error, OSError) and error.strerror:
        if error.filename is None:
            return f"the output cannot be written, or a file cannot be read ({error.strerror})."
        return f"{os.fsdecode(error.filename)}: cannot be used ({error.strerror})."
    name = type(error).__name__
    why = "" if first_line(error) == name else f": {first_line(error)}"
    return f"unexpected error ({name}{why}); this is a fault of the program, see it with --debug."
