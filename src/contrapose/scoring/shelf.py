"""One model's answers to one score: parts that are only added, and an index over them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from contrapose.metrics import FloatArray, IntArray
from contrapose.scoring.index import Index, words_of
from contrapose.scoring.lists import Lists
from contrapose.scoring.parts import Part, joined, read_lists, read_part
from contrapose.scoring.places import Place

READERS = 4
"""Threads that read parts."""


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Where rows of a shelf came from.

    Attributes:
        rows: how many.
        name: the part they lie in; empty when they are in memory alone.
        lists: theirs, when they are in memory alone.
    """

    rows: int
    name: str = ""
    lists: Mapping[str, Lists] = field(default_factory=dict)


@dataclass(slots=True)
class Shelf:
    """One model's answers to one score.

    Attributes:
        place: the store's place; None keeps answers in memory alone.
        folder: the shelf's folder there.
        model: the model's fingerprint.
        score: the score's name in the store.
        inherited: answers that were there when the shelf was first looked at.
    """

    place: Place | None
    folder: str
    model: str
    score: str
    inherited: int = 0
    _parts: list[Part] = field(default_factory=list)
    _origins: list[Origin] = field(default_factory=list)
    _index: Index | None = None
    _read: bool = False

    def find(
        self, images: Sequence[str], texts: Sequence[str], pairs: IntArray | None = None
    ) -> IntArray:
        """For each pair of content ids its row on the shelf; −1 where it has none.

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
            self._index = Index.of(whole.images, whole.texts)
        return self._index.find(images, texts, pairs)

    def values(self, rows: IntArray, column: str = "value") -> FloatArray:
        """A column's numbers in these rows: (n,), or (n, d) for vectors; NaN for row −1."""
        whole = self._whole()
        if whole is None:
            return np.full((len(rows), 0) if column == "vector" else len(rows), np.nan)
        found = whole.columns[column][rows]
        found[rows < 0] = np.nan
        return found

    def lists(self, rows: IntArray, column: str) -> Lists:
        """A column's lists in these rows, read from the parts now; empty where there is none."""
        self._whole()
        starts = np.cumsum([0, *(origin.rows for origin in self._origins)])
        wanted = np.unique(np.searchsorted(starts, rows[rows >= 0], side="right") - 1)
        read: dict[int, Lists] = {}
        names = {int(i): self._origins[i].name for i in wanted if self._origins[i].name}
        if self.place is not None and names:
            found = self.place.read(self.folder, list(names.values()))
            shown = [self.place.shown(self.folder, name) for name in names.values()]
            sources = [found[name] for name in names.values()]
            with ThreadPoolExecutor(READERS) as pool:
                lists = pool.map(read_lists, sources, shown, [column] * len(sources))
                read = dict(zip(names, lists, strict=True))
        parts = [
            read.get(i) or origin.lists.get(column) or Lists.none(origin.rows)
            for i, origin in enumerate(self._origins)
        ]
        return Lists.joined(parts).take(rows)

    def add(
        self, images: Sequence[str], texts: Sequence[str], columns: Mapping[str, FloatArray | Lists]
    ) -> None:
        """Put answers on the shelf, as one part.

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
        lists: dict[str, Lists] = {}
        for name, values in columns.items():
            if isinstance(values, Lists):
                lists[name], content[name] = values, values.column()
                continue
            numbers[name] = values
            array = pa.array(np.ascontiguousarray(values).reshape(-1))
            if values.ndim > 1:
                array = pa.FixedSizeListArray.from_arrays(array, values.shape[1])
            content[name] = array
        part = pa.table(content)
        self._whole()
        origin = Origin(len(images), lists=lists)
        if self.place is not None:
            sink = pa.BufferOutputStream()
            pq.write_table(part, sink, compression="zstd")
            origin = Origin(len(images), part_name())
            self.place.write(self.folder, origin.name, sink.getvalue().to_pybytes())
        self._parts.append(Part(words_of(images), words_of(texts), numbers))
        self._origins.append(origin)
        self._index = None

    def _whole(self) -> Part | None:
        """Everything on the shelf; None while it is empty."""
        if not self._read:
            self._read = True
            self._parts = self._stored()
            self.inherited = sum(len(part.images) for part in self._parts)
        if len(self._parts) > 1:
            self._parts = [joined(self._parts)]
        return self._parts[0] if self._parts else None

    def _stored(self) -> list[Part]:
        if self.place is None:
            return []
        found = self.place.read(self.folder, self.place.names(self.folder))
        shown = [self.place.shown(self.folder, name) for name in found]
        with ThreadPoolExecutor(READERS) as pool:
            parts = list(pool.map(read_part, found.values(), shown))
        self._origins = [
            Origin(len(part.images), name) for part, name in zip(parts, found, strict=True)
        ]
        return parts


def part_name() -> str:
    """A name that no other program gives, and that sorts by the time of writing."""
    return f"{time.time_ns():020d}-{uuid.uuid4().hex[:12]}.parquet"
