"""Writer of scored batches: a part of the store every few seconds."""

from __future__ import annotations

import time

from contrapose.arrays import Ragged
from contrapose.engine.columns import Columns, ScoredBatch
from contrapose.engine.pace import PaceClock
from contrapose.engine.row_blocks import stack_columns
from contrapose.engine.score_types import Progress
from contrapose.engine.store import AnswerTable

WRITE_INTERVAL = 5.0
"""Seconds of scores that a killed run can lose at first."""

MAX_WRITE_INTERVAL = 60.0
"""The same after hours: a hundredth of the time so far, so that parts stay few."""

WRITE_BYTES = 1 << 27
"""Bytes of scored batches that are written at once, however little time has passed."""


class PartWriter:
    """Write scored batches to the store every few seconds, and on exit even if the run fails."""

    def __init__(self, progress: Progress | None, table: AnswerTable, label: str, total: int):
        self.progress, self.table, self.label, self.total = progress, table, label, total
        self.clock: PaceClock | None = None
        self.done, self.started, self.last_write = 0, 0.0, 0.0
        self.shown = False
        self.images: list[str] = []
        self.texts: list[str] = []
        self.columns: list[Columns] = []
        self.bytes = 0

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()
        if self.clock is not None:
            self.clock.finish()

    def begin(self) -> None:
        """Show progress from now on."""
        if not self.shown:
            self.shown = True
            self._start()
            if self.clock is not None:
                self.clock.begin()
            if self.progress is not None:
                self.progress(self.label, self.done, self.total)

    def _start(self) -> None:
        if not self.started:
            self.started = self.last_write = time.monotonic()

    def add(self, batch: ScoredBatch) -> None:
        """Queue a scored batch, write when the interval has passed, and report progress."""
        self._start()
        columns = batch.columns()
        self.columns += columns
        self.bytes += sum(map(_count_bytes, columns))
        self.images += batch.images
        self.texts += batch.texts
        self.done += batch.tried
        now = time.monotonic()
        interval = max(WRITE_INTERVAL, min((now - self.started) / 100, MAX_WRITE_INTERVAL))
        if now - self.last_write >= interval or self.bytes >= WRITE_BYTES:
            self._write()
        if self.clock is not None:
            self.clock.add(self.done)
        if self.progress is not None and self.shown:
            self.progress(self.label, self.done, self.total)

    def _write(self) -> None:
        if self.columns:
            self.table.add(self.images, self.texts, stack_columns(self.columns))
        self.images, self.texts, self.columns, self.bytes = [], [], [], 0
        self.last_write = time.monotonic()


def _count_bytes(columns: Columns) -> int:
    arrays = (
        column.values if isinstance(column, Ragged) else column for column in columns.values()
    )
    return sum(array.nbytes for array in arrays)
