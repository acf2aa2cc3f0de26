"""Consoles of the command line, and progress bars or plain progress lines."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from contrapose.errors import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console
    from rich.progress import TaskID

    from contrapose.engine import Progress
    from contrapose.report import Table


def output_console() -> Console:
    """Console of standard output: styled in a terminal, plain text elsewhere."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, markup=False)


def error_console() -> Console:
    """Console of standard error, for progress and remarks."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False, markup=False)


def show(console: Console, parts: Sequence[Table | str]) -> None:
    """Print tables and sentences."""
    from contrapose.report.tables import show

    show(console, parts)


def echo_json(text: str) -> None:
    """Print JSON; control characters that JSON allows unescaped are escaped too."""
    import typer

    typer.echo(re.sub("[\x7f-\x9f]", lambda match: f"\\u{ord(match[0]):04x}", text))


def say_written(out: Path | None, *, quiet: bool = False) -> None:
    """Say on standard error what was written, if anything was."""
    if out is not None and not quiet:
        error_console().print(f"Written to {out}")


LINE_SECONDS = 10.0
"""Seconds between plain lines."""


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
        yield _ProgressLines(screen)


@contextmanager
def _show_bars(screen: Console) -> Iterator[Progress]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=screen, transient=True) as bars:
        current: list[tuple[str, TaskID, float]] = []

        def report(what: str, done: int, total: int) -> None:
            what = printable(what)
            if not current or current[0][0] != what or done == 0:
                for _, task, _ in current:
                    bars.remove_task(task)
                current[:] = [(what, bars.add_task(what, total=total, rate=""), time.monotonic())]
            _, task, start = current[0]
            bars.update(task, completed=done, total=total, rate=_format_rate(done, start))

        yield report


class _ProgressLines:
    """Progress callback that prints a plain line now and then, and at the end."""

    def __init__(self, screen: Console):
        self.screen, self.start, self.last = screen, time.monotonic(), time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done == 0:
            self.start = self.last = now
            return
        if now - self.last < LINE_SECONDS and done < total:
            return
        self.last = now
        left = (now - self.start) * (total - done) / done
        more = f", {left:.0f} s left" if done < total else ""
        self.screen.print(
            f"{printable(what)}: {done:,} of {total:,}, {_format_rate(done, self.start)}{more}"
        )


def _format_rate(done: int, start: float) -> str:
    seconds = time.monotonic() - start
    return f"{done / seconds:,.0f}/s" if done and seconds > 0 else ""
