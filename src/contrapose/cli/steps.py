"""How far training has come, and what is lost: a line in its place, or one now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from contrapose.cli.console import errors

if TYPE_CHECKING:
    from contrapose.tune.loop import Told

EVERY = 10.0
"""Seconds between plain lines."""


@contextmanager
def steps_told(*, quiet: bool) -> Iterator[Told | None]:
    """A function to be told steps and losses: a line in its place, or one now and then."""
    screen = errors()
    if quiet:
        yield None
        return
    last = time.monotonic()
    first: tuple[int, float] | None = None  # what came before the first step does not count

    def told(done: int, total: int, losses: Mapping[str, float]) -> None:
        nonlocal first, last
        now = time.monotonic()
        begun = first = first or (done, now)
        terms = ", ".join(f"{name} {value:.4g}" for name, value in losses.items())
        left = (now - begun[1]) * (total - done) / max(1, done - begun[0])
        text = f"step {done:,} of {total:,}: {terms}"
        if begun[0] < done < total:
            text += f"; {left:.0f} s left"
        if screen.is_terminal:
            screen.print(f"{text:<{screen.width - 1}}", end="\n" if done == total else "\r")
        elif now - last >= EVERY or done == total:
            last = now
            screen.print(text)

    yield told
