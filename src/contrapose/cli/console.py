"""Consoles of the command line, and progress bars or plain progress lines."""

from __future__ import annotations

import codecs
import io
import json
import math
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import IO, TYPE_CHECKING, Any

from contrapose.cli.signals import settle_signal
from contrapose.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from rich.console import Console
    from rich.progress import TaskID

    from contrapose.engine import Progress
    from contrapose.files.local_server import LocalServer
    from contrapose.report import Table


LEAST_WIDTH, USUAL_WIDTH = 20, 80
"""Columns of a terminal below which nothing can be read, and those that are then used."""


def output_console() -> Console:
    """Console of standard output: styled in a terminal, plain text elsewhere."""
    return _make_console()


def error_console() -> Console:
    """Console of standard error, for progress and remarks."""
    return _make_console(stderr=True)


def _make_console(*, stderr: bool = False) -> Console:
    console = _console_class()(stderr=stderr, highlight=False, emoji=False, markup=False)
    if console.width < LEAST_WIDTH:
        console.width = USUAL_WIDTH
    return console


@cache
def _console_class() -> type[Console]:
    """Class of consoles, made when the first one is; Rich takes a while to import."""
    from rich.console import Console

    class PipeConsole(Console):
        """Console that goes quiet when the reader of its pipe has gone, while the work goes on."""

        def on_broken_pipe(self) -> None:
            self.quiet = True
            discard_output(self.file)

    return PipeConsole


def ignore_tiny_width() -> None:
    """Forget a width of the terminal that the environment gives, and in which nothing fits."""
    width = os.environ.get("COLUMNS", "")
    if width.isdecimal() and int(width) < LEAST_WIDTH:
        del os.environ["COLUMNS"]


def echo(text: str) -> None:
    """Print a text as it is; nothing where the reader of the output has gone."""
    import typer

    try:
        typer.echo(text)
    except BrokenPipeError:
        discard_output()


ASCII = {
    "–": "-", "−": "-", "—": "-", "×": "x", "·": "|", "…": "...", "→": "->", "α": "alpha",
    "▼": "v", "▲": "^", "─": "-",
}  # fmt: skip
"""Spelling of characters that tables use, where the output's encoding lacks them."""


def _spell(error: UnicodeError) -> tuple[str, int]:
    """Spell what an encoding lacks: in ASCII, or as Python escapes it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(ASCII.get(char, ascii(char)[1:-1]) for char in text), error.end


def accept_all_characters() -> None:
    """Let standard output and error print any text, whatever their encoding."""
    codecs.register_error("contrapose", _spell)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="contrapose")


def flush_output() -> None:
    """Write out what is buffered, so that a full disk is known before the command ends."""
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def discard_output(stream: IO[str] | None = None) -> None:
    """Let go of what is buffered and cannot be written, which Python would try again at its end.

    Args:
        stream: the stream that cannot be written; None for standard output.
    """
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, (stream or sys.stdout).fileno())
        os.close(nowhere)


def show(console: Console, parts: Sequence[Table | str]) -> None:
    """Print tables and sentences."""
    from contrapose.report.terminal import show

    show(console, parts)


def show_as(
    form: str | None, parts: Sequence[Table | str], rows: Callable[[], Iterable[Mapping[str, Any]]]
) -> None:
    """Print results in a format of `options.Format`.

    Args:
        form: None for tables of the terminal.
        parts: tables and sentences.
        rows: the values, for CSV.
    """
    if form is None:
        show(output_console(), parts)
        return
    from contrapose.report.formats import render_csv, render_text

    if form == "csv":
        echo(printable(render_csv(rows())))
    else:
        echo(render_text(parts, "latex" if form == "latex" else "markdown"))


def echo_json(text: str) -> None:
    """Print JSON; characters that control a terminal or that its encoding lacks are escaped."""
    unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    text = re.sub("[\x7f-\x9f]" if unicode else "[^\0-\x7e]", _escape_json, text)
    echo(text)


def _escape_json(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1] if ord(match[0]) > 0x7F else "\\u007f"


def say_written(out: Path | None, *, quiet: bool = False) -> None:
    """Say on standard error what was written, if anything was."""
    if out is not None and not quiet:
        error_console().print(f"Written to {out}")


def wait_for_server(server: LocalServer, *, quiet: bool = False) -> None:
    """Serve until Ctrl-C, then close the server."""
    if not quiet:
        error_console().print("Stop it with Ctrl-C.")
    try:
        server.wait()
    except KeyboardInterrupt:
        settle_signal()
    finally:
        server.close()


LINE_SECONDS = 10.0
"""Seconds between plain lines."""
PHASE_SECONDS = 2.0
"""Seconds after which a phase is said that has told nothing of its steps."""
SENTENCES = ("plan: ", "estimate: ")
"""Beginnings of labels that are sentences, `engine.pace`: to print, and not to draw as bars."""


@contextmanager
def show_progress(*, quiet: bool = False) -> Iterator[Progress | None]:
    """Progress callback `(description, done, total)`; None when quiet."""
    screen = error_console()
    if quiet:
        yield None
    elif screen.is_terminal:
        with _show_bars(screen) as progress:
            yield progress
    else:
        lines = _ProgressLines(screen)
        try:
            yield lines
        finally:
            lines.close()


@contextmanager
def show_phase(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Say what a command does while it does it, where that takes longer than a moment."""
    with show_progress(quiet=quiet) as progress:
        if progress is not None:
            progress(what, 0, 1)
        yield


@contextmanager
def _show_bars(screen: Console) -> Iterator[Progress]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=screen, transient=True) as bars:
        current: list[tuple[str, TaskID, _Rate]] = []

        def report(what: str, done: int, total: int) -> None:
            what = printable(what)
            if what.startswith(SENTENCES):
                if done:
                    screen.print(_begin_sentence(what))
                return
            if not current or current[0][0] != what or done == 0:
                for _, task, _ in current:
                    bars.remove_task(task)
                current[:] = [(what, bars.add_task(what, total=total, rate=""), _Rate(done))]
            _, task, rate = current[0]
            pace = rate.find_pace(done)
            text = f"{1 / pace:,.0f}/s" if pace else ""
            bars.update(task, completed=done, total=total, rate=text)

        yield report


class _ProgressLines:
    """Progress callback that prints a plain line now and then, and at the end.

    A phase is said when it has lasted for `PHASE_SECONDS` without a line, and a short one when
    there was no line for `LINE_SECONDS`; the plan and estimates, before the next line, and after
    `PHASE_SECONDS` at the latest.
    """

    def __init__(self, screen: Console):
        self.screen, self.last = screen, time.monotonic()
        self.label, self.said, self.due = "", time.monotonic(), math.inf
        self.rate = _Rate(0)
        self.waiting: list[str] = []
        self.timer: threading.Timer | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what.startswith(SENTENCES):
            if done:
                self.waiting.append(what)
                self.due = min(self.due, now + PHASE_SECONDS)
                self._start_timer()
            return
        if now >= self.due:
            self._say_waiting(only=SENTENCES)
        if total == 1:
            self.close()
            if done:
                self._drop(what)
            else:
                self.waiting.append(what)
            if now - self.said > LINE_SECONDS:  # many short phases
                self._say_waiting()
            if self.waiting:
                self._start_timer()
            return
        if what != self.label or done == 0:
            self.close()
            self._drop(self.label)
            self.label, self.rate, self.last = what, _Rate(done), now
            self.waiting.append(what)
            self._start_timer()
        if done == 0 or (now - self.last < LINE_SECONDS and done < total):
            return
        self.close()
        self._drop(what)
        self.last = now
        self._say_waiting(only=SENTENCES)
        pace = self.rate.find_pace(done)
        more = f", {pace * (total - done):.0f} s left" if done < total and pace else ""
        rate = f", {1 / pace:,.0f}/s" if pace else ""
        self.screen.print(f"{printable(what)}: {done:,} of {total:,}{rate}{more}", soft_wrap=True)
        if self.waiting:  # a phase around this one
            self._start_timer()

    def _start_timer(self) -> None:
        """Say what waits in a while, unless something else comes first."""
        if self.timer is None or not self.timer.is_alive():
            self.timer = threading.Timer(PHASE_SECONDS, self._say_waiting)
            self.timer.daemon = True
            self.timer.start()

    def _drop(self, what: str) -> None:
        """Say nothing of a phase that has told its steps, or ended."""
        if what in self.waiting:
            self.waiting.remove(what)

    def close(self) -> None:
        """Say nothing of a phase that has ended."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _say_waiting(self, only: tuple[str, ...] = ("",)) -> None:
        """Say the labels that wait, of those that begin in these ways."""
        self.said, self.due = time.monotonic(), math.inf
        said = [text for text in self.waiting if text.startswith(only)]
        self.waiting = [text for text in self.waiting if text not in said]
        for text in map(printable, said):
            self.screen.print(_begin_sentence(text), soft_wrap=True)


def _begin_sentence(label: str) -> str:
    """Label with a capital letter, unless it begins with the name of a model or a score."""
    if ": " in label and not label.startswith(SENTENCES):
        return label
    return f"{label[:1].upper()}{label[1:]}"


class _Rate:
    """Rate of work since it was first reported, when some of it may have been done already."""

    def __init__(self, done: int):
        self.done, self.start = done, time.monotonic()

    def find_pace(self, done: int) -> float:
        """Seconds an item; 0 where they are not known."""
        items = done - self.done
        return (time.monotonic() - self.start) / items if items > 0 else 0.0
