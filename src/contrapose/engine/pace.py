"""Pace of scoring: seconds per image, caption or pair, kept beside the scores for later estimates.

A pace is of one model (by its fingerprint, which covers the dtype), one kind of work, one device,
one batch size and one machine. Estimates come from paces that were measured, and from nothing else.
"""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from contrapose.engine.score_types import Progress
from contrapose.engine.storage import StorageBackend, folder_name
from contrapose.engine.store import AnswerStore
from contrapose.errors import ContraposeError
from contrapose.files import digest
from contrapose.models import Model
from contrapose.models.capabilities import UNSTORED

PLAN, ESTIMATE = "plan: ", "estimate: "
"""Beginnings of progress labels that are sentences to print, and not work with steps."""

FOLDER = "paces"
FIRST_BATCHES = 3
"""Batches after which the time for the others is estimated; the first one alone is a warm-up."""
SHORTEST = 10.0
"""Seconds below which an estimate of one request is not worth a line."""
LEAST_TIME = 0.5
"""Seconds that a pace must have been measured for."""


@contextmanager
def report_phase(progress: Progress | None, label: str) -> Iterator[None]:
    """Report a phase that has no steps: 0 of 1 when it begins, 1 of 1 when it ends."""
    if progress is not None:
        progress(label, 0, 1)
    yield
    if progress is not None:
        progress(label, 1, 1)


def name_progress(
    progress: Progress | None, prefix: str, score: str = ""
) -> Callable[[str, int, int], None] | None:
    """Progress callback whose labels begin with a prefix, such as a model and a benchmark.

    Args:
        progress: the callback; None for none.
        prefix: the first words.
        score: name of the score, which is added to labels that do not begin with it.
    """
    if progress is None:
        return None

    def report(what: str, done: int, total: int) -> None:
        if what.startswith(ESTIMATE):
            progress(f"{ESTIMATE}{prefix}: {what.removeprefix(ESTIMATE)}", done, total)
        else:
            label = what if what.startswith(score) else f"{score}, {what}"
            progress(f"{prefix}: {label}", done, total)

    return report


def report_sentence(progress: Progress | None, text: str) -> None:
    """Report a sentence that has no steps, such as the plan."""
    if progress is not None:
        progress(text, 0, 1)
        progress(text, 1, 1)


def format_seconds(seconds: float) -> str:
    """Duration in words, in steps that do not change with every batch."""
    if seconds < 100:
        return f"{max(10, 10 * round(seconds / 10)):.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"


class PaceBook:
    """Paces of a model on this machine, read once from a store.

    A store that cannot be read or written, or a damaged file, costs nothing but the estimate.
    """

    def __init__(self, store: AnswerStore, model: Model, batch_size: int | None):
        stored = not model.fingerprint.startswith(UNSTORED)
        self.storage: StorageBackend | None = store.storage if stored else None
        self.name = f"{folder_name(model.fingerprint)}.json"
        device = getattr(model, "device", getattr(model, "_device", ""))
        self.place = f"{device}, batches of {batch_size or 'any size'}, {_name_machine()}"

    def find(self, label: str) -> float | None:
        """Seconds per item of a kind of work in the latest run; None where none was measured."""
        value: Any = self._read().get(f"{label}, {self.place}")
        with suppress(TypeError, ValueError, OverflowError):  # text, or an integer of 400 digits
            pace = float(value)
            return pace if math.isfinite(pace) and pace > 0 else None
        return None

    def record(self, label: str, seconds: float, items: int) -> None:
        """Keep the pace of a finished piece of work, where it lasted long enough to tell."""
        if self.storage is None or items < 1 or seconds < LEAST_TIME:
            return
        content = dict(self._read()) | {f"{label}, {self.place}": round(seconds / items, 9)}
        with suppress(ContraposeError):
            self.storage.write(FOLDER, self.name, json.dumps(content, indent=1).encode())

    def _read(self) -> Mapping[str, Any]:
        if self.storage is None:
            return {}
        try:
            (source,) = self.storage.read_ranges(FOLDER, [(self.name, 0, None)])
            content = json.loads(source)
        except (ContraposeError, OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}


@cache
def _name_machine() -> str:
    """Name of this machine in a shared store, which does not tell its real one."""
    return digest(f"{platform.node()} {platform.machine()}".encode())[:8]


class PaceClock:
    """Clock of one request's batches: an estimate before the first or after some, and the pace.

    Attributes:
        label: the request in words.
        total: items to score.
    """

    def __init__(self, book: PaceBook, progress: Progress | None, label: str, total: int):
        self.book, self.progress, self.label, self.total = book, progress, label, total
        self.pace = None if progress is None else book.find(label)
        self.batches = 0
        self.first = self.last = (0.0, 0)

    def begin(self) -> None:
        """Report the estimate by an earlier run, if there was one."""
        if self.pace is not None:
            self._report(self.pace * self.total, f"{self.total:,}", "at the pace of an earlier run")

    def add(self, done: int) -> None:
        """Note that a batch is done, `done` items in all; after the first few, report an estimate.

        Time runs from the end of the first batch, in which models warm up.
        """
        self.batches += 1
        self.last = (time.monotonic(), done)
        if self.batches == 1:
            self.first = self.last
        elif self.batches == FIRST_BATCHES and self.pace is None:
            seconds, items = (b - a for a, b in zip(self.first, self.last, strict=True))
            left = self.total - done
            if items > 0:
                basis = f"from the first {FIRST_BATCHES} batches"
                self._report(seconds / items * left, f"{left:,} more", basis)

    def exclude(self, seconds: float) -> None:
        """Leave out time in which other work was done."""
        if self.batches and self.last[1] < self.total:
            self.first = self.first[0] + seconds, self.first[1]

    def finish(self) -> None:
        """Keep the pace of what was done."""
        seconds, items = (b - a for a, b in zip(self.first, self.last, strict=True))
        self.book.record(self.label, seconds, int(items))

    def _report(self, seconds: float, items: str, basis: str) -> None:
        if seconds >= SHORTEST:
            text = f"{ESTIMATE}{self.label}: about {format_seconds(seconds)} for {items}, {basis}"
            report_sentence(self.progress, text)


def estimate_work(book: PaceBook, work: Mapping[str, int]) -> tuple[float, Sequence[str]]:
    """Estimate the seconds of work by earlier paces, and list the labels that have none.

    Args:
        book: paces of the model.
        work: items of each kind of work.
    """
    paces = {label: book.find(label) for label, items in work.items() if items}
    known = {label: pace for label, pace in paces.items() if pace is not None}
    seconds = sum(pace * work[label] for label, pace in known.items())
    return seconds, [label for label in paces if label not in known]
