"""Content-addressed store of scores: append-only Parquet parts, one table per model and score.

A part that has its name is complete, whenever its writer was killed; what was left under a
temporary name is never read. Names of parts sort by the time of writing, so that the newest answer
counts where something was scored again. Any number of programs may add to a table at once: each
writes parts of its own, and none is ever changed or deleted.

    PLACE/answers/<model fingerprint>/<score>/<part>.parquet    model, score, image, text, value, …

A shelf holds one model's answers to one score, as Parquet parts that are only ever added. A part
that has its name is whole, whenever its writer was killed; what was left under a temporary name is
never read. Names of parts sort by the time of writing, so that the newest answer counts where
something was asked again. Any number of programs may add to a shelf at once: each writes parts of
its own, and none is ever changed or deleted.

    PLACE/answers/<model fingerprint>/<score>/<part>.parquet    model, score, image, text, value, …
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.engine.parts import (
    ListColumn,
    PairIndex,
    Part,
    join_parts,
    pack_ids,
    read_lists,
    read_part,
    stack_columns,
)
from contrapose.engine.score_types import Columns, Progress
from contrapose.engine.storage import StorageBackend, open_storage
from contrapose.metrics import FloatArray, IntArray
from contrapose.models.capabilities import UNSTORED

READER_THREADS = 4
"""Threads that read parts."""


@dataclass(frozen=True, slots=True, eq=False)
class PartOrigin:
    """Origin of a block of rows: a stored part, or memory alone.

    Attributes:
        rows: how many.
        name: the part they lie in; empty when they are in memory alone.
        lists: theirs, when they are in memory alone.
    """

    rows: int
    name: str = ""
    lists: Mapping[str, ListColumn] = field(default_factory=dict)


@dataclass(slots=True)
class AnswerTable:
    """Answers of one model under one score name: append-only parts with an index over them.

    Attributes:
        place: the store's place; None keeps answers in memory alone.
        folder: the shelf's folder there.
        model: the model's fingerprint.
        score: the score's name in the store.
        inherited: answers that were there when the shelf was first looked at.
    """

    place: StorageBackend | None
    folder: str
    model: str
    score: str
    rows_at_start: int = 0
    _parts: list[Part] = field(default_factory=list)
    _origins: list[PartOrigin] = field(default_factory=list)
    _index: PairIndex | None = None
    _read: bool = False

    def find(
        self, images: Sequence[str], texts: Sequence[str], pairs: IntArray | None = None
    ) -> IntArray:
        """Return the row of each pair of content ids; −1 where it has none.

        An answer that needs no image, or no text, stands under an empty id for it. Where a thing
        was asked again, the newest answer is found.

        Args:
            images: content ids.
            texts: content ids.
            pairs: (p, 2) positions in them; None takes the i-th image with the i-th text.
        """
        if pairs is None:
            pairs = np.repeat(np.arange(len(images))[:, None], 2, axis=1)
        whole = self._whole()
        if whole is None or not len(pairs):
            return np.full(len(pairs), -1, dtype=np.int64)
        if self._index is None:
            self._index = PairIndex.of(whole.images, whole.texts)
        return self._index.find(images, texts, pairs)

    def values(self, rows: IntArray, column: str = "value") -> FloatArray:
        """Return a column's values in these rows: (n,), or (n, d) for vectors; NaN for row −1."""
        whole = self._whole()
        if whole is None:
            return np.full((len(rows), 0) if column == "vector" else len(rows), np.nan)
        found = whole.columns[column][rows]
        found[rows < 0] = np.nan
        return found

    def lists(self, rows: IntArray, column: str) -> ListColumn:
        """Read a ragged column's lists in these rows from the parts; empty where there is none."""
        self._whole()
        starts = np.cumsum([0, *(origin.rows for origin in self._origins)])
        wanted = np.unique(np.searchsorted(starts, rows[rows >= 0], side="right") - 1)
        read: dict[int, ListColumn] = {}
        names = {int(i): self._origins[i].name for i in wanted if self._origins[i].name}
        if self.place is not None and names:
            found = self.place.read(self.folder, list(names.values()))
            shown = [self.place.shown(self.folder, name) for name in names.values()]
            sources = [found[name] for name in names.values()]
            with ThreadPoolExecutor(READER_THREADS) as pool:
                lists = pool.map(read_lists, sources, shown, [column] * len(sources))
                read = dict(zip(names, lists, strict=True))
        parts = [
            read.get(i) or origin.lists.get(column) or ListColumn.none(origin.rows)
            for i, origin in enumerate(self._origins)
        ]
        return ListColumn.joined(parts).take(rows)

    def add(
        self,
        images: Sequence[str],
        texts: Sequence[str],
        columns: Mapping[str, FloatArray | ListColumn],
    ) -> None:
        """Append answers as one part.

        Raises:
            InputError: the place cannot be written.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not len(images):
            return
        content: dict[str, Any] = {
            "model": pa.array([self.model] * len(images)).dictionary_encode(),
            "score": pa.array([self.score] * len(images)).dictionary_encode(),
            "image": pa.array(images, pa.large_string()),
            "text": pa.array(texts, pa.large_string()),
        }
        numbers: dict[str, FloatArray] = {}
        lists: dict[str, ListColumn] = {}
        for name, values in columns.items():
            if isinstance(values, ListColumn):
                lists[name], content[name] = values, values.column()
                continue
            numbers[name] = values
            array = pa.array(np.ascontiguousarray(values).reshape(-1))
            if values.ndim > 1:
                array = pa.FixedSizeListArray.from_arrays(array, values.shape[1])
            content[name] = array
        part = pa.table(content)
        self._whole()
        origin = PartOrigin(len(images), lists=lists)
        if self.place is not None:
            sink = pa.BufferOutputStream()
            pq.write_table(part, sink, compression="zstd")
            origin = PartOrigin(len(images), new_part_name())
            self.place.write(self.folder, origin.name, sink.getvalue().to_pybytes())
        self._parts.append(Part(pack_ids(images), pack_ids(texts), numbers))
        self._origins.append(origin)
        self._index = None

    def _whole(self) -> Part | None:
        """Return all rows as one part, reading them on first use; None while the table is empty."""
        if not self._read:
            self._read = True
            self._parts = self._stored()
            self.rows_at_start = sum(len(part.images) for part in self._parts)
        if len(self._parts) > 1:
            self._parts = [join_parts(self._parts)]
        return self._parts[0] if self._parts else None

    def _stored(self) -> list[Part]:
        if self.place is None:
            return []
        found = self.place.read(self.folder, self.place.names(self.folder))
        shown = [self.place.shown(self.folder, name) for name in found]
        with ThreadPoolExecutor(READER_THREADS) as pool:
            parts = list(pool.map(read_part, found.values(), shown))
        self._origins = [
            PartOrigin(len(part.images), name) for part, name in zip(parts, found, strict=True)
        ]
        return parts


def new_part_name() -> str:
    """Generate a unique part name that sorts by the time of writing."""
    return f"{time.time_ns():020d}-{uuid.uuid4().hex[:12]}.parquet"


WRITE_INTERVAL = 5.0
"""Seconds of answers that a killed run can lose at first."""

MAX_WRITE_INTERVAL = 60.0
"""The same after hours: a hundredth of the time so far, so that parts stay few."""


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """Scored batch: ids, columns of the rows that have scores, and how many rows were tried."""

    images: list[str]
    texts: list[str]
    columns: list[Columns]
    asked: int


class PartWriter:
    """Write scored batches to the store every few seconds, and on exit even if the run fails."""

    def __init__(self, progress: Progress | None, answer_table: AnswerTable, what: str, total: int):
        self.progress, self.answer_table, self.what, self.total = (
            progress,
            answer_table,
            what,
            total,
        )
        self.done, self.begun = 0, 0.0
        self.since = 0.0
        self.waiting: list[ScoredBatch] = []

    def __enter__(self) -> PartWriter:
        return self

    def begin(self) -> None:
        """Start the clock and report the first progress."""
        if not self.begun:
            self.begun = self.since = time.monotonic()
            if self.progress is not None:
                self.progress(self.what, 0, self.total)

    def __exit__(self, *_: object) -> None:
        self._put()

    def keep(self, answer: ScoredBatch) -> None:
        """Queue a scored batch, write when the interval has passed, and report progress."""
        self.begin()
        self.waiting.append(answer)
        self.done += answer.asked
        now = time.monotonic()
        if now - self.since >= max(
            WRITE_INTERVAL, min((now - self.begun) / 100, MAX_WRITE_INTERVAL)
        ):
            self._put()
        if self.progress is not None:
            self.progress(self.what, self.done, self.total)

    def _put(self) -> None:
        columns = [some for answer in self.waiting for some in answer.columns]
        if columns:
            self.answer_table.add(
                [name for answer in self.waiting for name in answer.images],
                [name for answer in self.waiting for name in answer.texts],
                stack_columns(columns),
            )
        self.waiting, self.since = [], time.monotonic()


def default_store_folder() -> Path:
    """Return the default store folder: the platform's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path.home() / ".cache") / "contrapose"


class AnswerStore:
    """Answer tables of a storage backend, or of memory when there is none."""

    def __init__(self, where: Path | str | None = None):
        """Open a store in a folder, or at a URL that fsspec understands.

        Raises:
            InputError: the place cannot be made or written.
            MissingExtraError: a URL, and fsspec is not installed.
        """
        self.place = None if where is None else open_storage(where)
        self._shelves: dict[tuple[str, str], AnswerTable] = {}
        if self.place is not None:
            self.place.prepare()

    def answer_table(self, fingerprint: str, score: str) -> AnswerTable:
        """Return the answer table of a model and a score, opened once."""
        key = fingerprint, score
        if key not in self._shelves:
            folder = f"answers/{_folder_name(fingerprint)}/{_folder_name(score)}"
            place = None if fingerprint.startswith(UNSTORED) else self.place
            self._shelves[key] = AnswerTable(place, folder, fingerprint, score)
        return self._shelves[key]


def _folder_name(text: str) -> str:
    """Return a readable folder name, different for different texts."""
    plain = re.sub(r"[^A-Za-z0-9.+-]+", "_", text).strip("._")[:48]
    if plain == text:
        return plain
    return f"{plain}-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"
