"""The `contrapose` command: its verbs and its error handling."""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from contrapose import __version__
from contrapose.cli.console import (
    accept_all_characters,
    discard_output,
    flush_output,
    ignore_tiny_width,
)
from contrapose.cli.help import add_help
from contrapose.cli.signals import interrupting_signals, settle_signal
from contrapose.errors import (
    ContraposeError,
    DamageWarning,
    InputError,
    command_line_names,
    first_line,
    hide_credentials,
    one_line,
    shortage_error,
)
from contrapose.files.text import MalformedError, is_valid_unicode

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

FIXABLE = (ContraposeError, MalformedError, OSError)
"""Errors that the user or the system can mend."""

INTERRUPTED = 128 + signal.SIGINT
"""Exit status of a command that Ctrl-C ended, by typer's rule and a shell's."""

MALLOC_OPTIONS = {
    "MALLOC_ARENA_MAX": (-8, len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1),
    "MALLOC_TRIM_THRESHOLD_": (-1, 1 << 28),
    "MALLOC_TOP_PAD_": (-2, 1 << 26),
    "MALLOC_MMAP_THRESHOLD_": (-3, 1 << 25),
}
"""Options of glibc's memory: by the variable by which a user sets one, its number and value."""

COLLECT_AFTER = 100_000
"""New objects after which Python looks for cycles: among a million rows it would look in vain."""

FAULT = 70
"""Exit status of an unexpected error, as BSD's `EX_SOFTWARE`."""


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

    An error that the user can fix has the status 2, a fault of the program the status 70; a command
    that a signal ended has 128 and the number of the signal, as in a shell: 130 after Ctrl-C.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *thresholds[1:])
    _keep_memory()
    try:
        with interrupting_signals() as signals:
            status = _run(arguments, signals)
    except KeyboardInterrupt:  # another one, at the very end
        settle_signal()
        status = INTERRUPTED
    finally:
        gc.set_threshold(*thresholds)
    raise SystemExit(status)


def _keep_memory() -> None:
    """Let glibc keep memory that was freed, in one pool for each processor.

    What one array has freed is then used by the next one, and not left to the system, which clears
    it before it gives it again: large arrays take less time, and those of threads less memory.
    """
    if sys.platform != "linux" or any(name in os.environ for name in MALLOC_OPTIONS):
        return
    import ctypes

    with suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL(None)
        for number, value in MALLOC_OPTIONS.values():
            library.mallopt(number, value)


def _run(arguments: Sequence[str] | None, signals: list[int]) -> int:
    """Run the command; return its exit status.

    Args:
        arguments: its words; None for those of the process.
        signals: those that came so far, see `signals.interrupting_signals`.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    try:
        accept_all_characters()
        ignore_tiny_width()
        _require_unicode(words)
        with command_line_names(words), warnings.catch_warnings():
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
        return 0
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        discard_output()  # typer's own consoles, as of the help, end with 1 at a closed pipe
        return 0
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        if hasattr(error, "format_message"):  # words that typer does not understand
            _show_usage_error(error)
            return BAD_INPUT
        if isinstance(error, OSError):
            discard_output()
        if debug:
            raise
        code = INTERRUPTED  # a library may turn the interrupt into an error of its own
        if not signals:
            _print_error(_describe_error(error))
            fixable = isinstance(error, FIXABLE) or shortage_error(error)
            code = BAD_INPUT if fixable else FAULT
    if code == INTERRUPTED:
        return _end_by_signal(words, signals)
    return code if isinstance(code, int) else 0


def _require_unicode(words: Sequence[str]) -> None:
    """Require that a command's words are text; names of files that are there are refused later.

    Raises:
        InputError: one holds other bytes, or Python takes them for ASCII alone.
    """
    for word in words:
        if not is_valid_unicode(word) and not os.path.lexists(word):
            encoding = sys.getfilesystemencoding().upper()
            raise InputError(f"the argument {word!r} holds bytes that are not {encoding} text.")


GOES_ON = ("audit", "build", "data", "diagnose", "eval", "index")
"""Verbs that keep what is done when they end early."""


def _end_by_signal(words: Sequence[str], signals: Sequence[int]) -> int:
    """Say that a signal ended the command and how to go on; return the exit status."""
    settle_signal()
    number = signals[0] if signals else signal.SIGINT
    verb = next((word for word in words if word in VERBS), "")
    more = "nothing half-written was left."
    if verb == "tune":
        more = "checkpoints are kept; where there is one, --resume goes on from it."
    elif verb in GOES_ON:
        more = "what is complete is kept; the same command goes on from there."
    with suppress(KeyboardInterrupt):
        _print_error(f"interrupted ({signal.Signals(number).name}): {more}")
    return 128 + number


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
        print(one_line(message), file=sys.stderr or sys.__stderr__, flush=True)


def _describe_error(error: Exception) -> str:
    """Describe any error in one sentence."""
    known = error if isinstance(error, ContraposeError) else shortage_error(error)
    if isinstance(error, MalformedError):
        known = InputError(str(error))
    if known is not None:
        return str(known)
    if isinstance(error, OSError) and error.strerror:
        if error.filename is None:
            if _is_of_output(error):
                return f"the output cannot be written ({error.strerror})."
            return f"a file cannot be read or written ({error.strerror})."
        return f"{os.fsdecode(error.filename)}: cannot be used ({error.strerror})."
    name = type(error).__name__
    why = "" if first_line(error) == name else f": {first_line(error)}"
    return f"unexpected error ({name}{why}); this is a fault of the program, see it with --debug."


PRINTERS = ("click", "rich", "typer")
"""Packages that print; of this one only `contrapose.cli` does."""


def _is_of_output(error: BaseException) -> bool:
    """Whether an error came up where a command prints."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = str(trace.tb_frame.f_globals.get("__name__")) if trace is not None else ""
    return name.split(".")[0] in PRINTERS or name.startswith("contrapose.cli.")
