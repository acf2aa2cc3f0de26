"""Answers on their way to the shelf: kept every few seconds and at the end, also an early one."""

from __future__ import annotations

import time
from dataclasses import dataclass

from contrapose.scoring.calls import Columns
from contrapose.scoring.parts import stacked_columns
from contrapose.scoring.scores import Progress
from contrapose.scoring.shelf import Shelf

KEEP_EVERY = 5.0
"""Seconds of answers that a killed run can lose at first."""

KEEP_AT_MOST = 60.0
"""The same after hours: a hundredth of the time so far, so that parts stay few."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answers of one batch: ids, the columns of those that have some, how many were asked."""

    images: list[str]
    texts: list[str]
    columns: list[Columns]
    asked: int


class Keeper:
    """Puts batches on the shelf, each whole; a block that ends, however it ends, loses none."""

    def __init__(self, progress: Progress | None, shelf: Shelf, what: str, total: int):
        self.progress, self.shelf, self.what, self.total = progress, shelf, what, total
        self.done, self.begun = 0, 0.0
        self.since = 0.0
        self.waiting: list[Answer] = []

    def __enter__(self) -> Keeper:
        return self

    def begin(self) -> None:
        """Say what is asked next; the clock runs from here."""
        if not self.begun:
            self.begun = self.since = time.monotonic()
            if self.progress is not None:
                self.progress(self.what, 0, self.total)

    def __exit__(self, *_: object) -> None:
        self._put()

    def keep(self, answer: Answer) -> None:
        """Take the answers of a batch."""
        self.begin()
        self.waiting.append(answer)
        self.done += answer.asked
        now = time.monotonic()
        if now - self.since >= max(KEEP_EVERY, min((now - self.begun) / 100, KEEP_AT_MOST)):
            self._put()
        if self.progress is not None:
            self.progress(self.what, self.done, self.total)

    def _put(self) -> None:
        columns = [some for answer in self.waiting for some in answer.columns]
        if columns:
            self.shelf.add(
                [name for answer in self.waiting for name in answer.images],
                [name for answer in self.waiting for name in answer.texts],
                stacked_columns(columns),
            )
        self.waiting, self.since = [], time.monotonic()
