"""How far long work has come: a bar in a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from contrapose.cli.console import errors
from contrapose.scoring import Progress as Told

EVERY = 10.0
"""Seconds between plain lines."""


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Told | None]:
    """A function to be told `(what, done, total)`; None when nothing is to be said."""
    screen = errors()
    if quiet:
        yield None
    elif screen.is_terminal:
        with _bars(screen) as told:
            yield told
    else:
        yield _Lines(screen)


@contextmanager
def _bars(screen: Console) -> Iterator[Told]:
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=screen, transient=True) as bars:
        current: list[tuple[str, TaskID, float]] = []

        def told(what: str, done: int, total: int) -> None:
            if not current or current[0][0] != what or done == 0:
                for _, task, _ in current:
                    bars.remove_task(task)
                current[:] = [(what, bars.add_task(what, total=total, rate=""), time.monotonic())]
            _, task, start = current[0]
            bars.update(task, completed=done, total=total, rate=_rate(done, start))

        yield told


class _Lines:
    """Plain lines: when a piece of work takes long, and when it ends."""

    def __init__(self, screen: Console):
        self.screen, self.start, self.last = screen, time.monotonic(), time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done == 0:
            self.start = self.last = now
            return
        if now - self.last < EVERY and done < total:
            return
        self.last = now
        left = (now - self.start) * (total - done) / done
        more = f", {left:.0f} s left" if done < total else ""
        self.screen.print(f"{what}: {done:,} of {total:,}, {_rate(done, self.start)}{more}")


def _rate(done: int, start: float) -> str:
    seconds = time.monotonic() - start
    return f"{done / seconds:,.0f}/s" if done and seconds > 0 else ""
