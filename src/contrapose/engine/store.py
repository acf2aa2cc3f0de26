"""Content-addressed store of scores: append-only Parquet parts, one table per model and score.

A part that has its name is complete, whenever its writer was killed; what was left under a
temporary name is never read. Names of parts sort by the order of writing, so that the newest answer
counts where something was scored again. Any number of programs may add to a table at once: each
writes parts of its own, and none is ever changed or deleted. A part whose bytes do not have the
digest in its name is named in a warning and set aside; its pairs are scored again.

    ROOT/answers/<model fingerprint>/<score>/<part>.parquet    model, score, image, text, value, …

In memory a row is packed ids, keys and numbers, and never a Python object.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.arrays import Ragged
from contrapose.engine.pair_index import IdWords, PairIndex, pack_ids
from contrapose.engine.storage import (
    StorageBackend,
    encode_part,
    open_storage,
    read_lists,
    read_part,
    release_memory,
)
from contrapose.errors import DamageWarning
from contrapose.metrics import FloatArray, IntArray
from contrapose.models.capabilities import UNSTORED


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Rows of an answer table in memory: packed ids and numeric columns.

    Attributes:
        images: image ids, row by row.
        texts: caption ids, row by row.
        columns: numbers by name: (n,), or (n, d) for vectors; ragged columns are read on demand.
    """

    images: IdWords
    texts: IdWords
    columns: Mapping[str, FloatArray]


def join_parts(parts: list[Part]) -> Part:
    """Concatenate parts row-wise, and empty the list: joined columns replace theirs one by one."""
    images, texts = [part.images for part in parts], [part.texts for part in parts]
    columns = {name: [part.columns[name] for part in parts] for name in parts[0].columns}
    parts.clear()
    return Part(
        _join_column(images),
        _join_column(texts),
        {name: _join_column(blocks) for name, blocks in columns.items()},
    )


def _join_column(blocks: list[Any]) -> Any:
    joined = np.concatenate(blocks)
    blocks.clear()
    return joined


def _read_packed(source: Path | bytes, path: Path | str) -> Part | None:
    """Read a part and pack its ids; None when it is damaged."""
    content = read_part(source, path)
    if content is None:
        return None
    images, texts, columns = content
    return Part(pack_ids(images), pack_ids(texts), columns)


def stack_columns(
    parts: Sequence[Mapping[str, FloatArray | Ragged]],
) -> dict[str, FloatArray | Ragged]:
    """Concatenate columns row-wise, numeric and ragged."""
    stacked: dict[str, FloatArray | Ragged] = {}
    for name in parts[0]:
        columns = [part[name] for part in parts]
        ragged = [column for column in columns if isinstance(column, Ragged)]
        plain = [column for column in columns if not isinstance(column, Ragged)]
        stacked[name] = Ragged.concatenate(ragged) if ragged else np.concatenate(plain)
    return stacked


READER_THREADS = 4
"""Threads that read parts."""

PARTS_PER_FETCH = 64
"""Parts that are fetched from a remote storage at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class PartOrigin:
    """Origin of a block of rows: a stored part, or memory alone.

    Attributes:
        rows: number of rows.
        name: name of the stored part; empty for memory alone.
        lists: ragged columns of rows in memory alone.
    """

    rows: int
    name: str = ""
    lists: Mapping[str, Ragged] = field(default_factory=dict)


@dataclass(slots=True)
class AnswerTable:
    """Answers of one model under one score name: append-only parts with an index over them.

    Attributes:
        storage: where parts are stored; None keeps them in memory alone.
        folder: the table's folder in the storage.
        model: the model's fingerprint.
        score: the score's name in the store.
        rows_at_start: rows that were stored when the table was first read.
    """

    storage: StorageBackend | None
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

        An answer that needs no image, or no text, has an empty id for it. Of a pair that was scored
        again, the newest row counts.

        Args:
            images: content ids of images.
            texts: content ids of captions.
            pairs: (p, 2) positions in them; None pairs the i-th image with the i-th caption.
        """
        if pairs is None:
            pairs = np.repeat(np.arange(len(images))[:, None], 2, axis=1)
        rows = self._all_rows()
        if rows is None or not len(pairs):
            return np.full(len(pairs), -1, dtype=np.int64)
        if self._index is None:
            self._index = PairIndex.of(rows.images, rows.texts)
        return self._index.find(images, texts, pairs)

    def values(self, rows: IntArray, column: str = "value") -> FloatArray:
        """Return a column's values in these rows: (n,), or (n, d) for vectors; NaN for row −1."""
        stored = self._all_rows()
        if stored is None:
            return np.full((len(rows), 0) if column == "vector" else len(rows), np.nan)
        values = stored.columns[column][rows]
        values[rows < 0] = np.nan
        return values

    def lists(self, rows: IntArray, column: str) -> Ragged:
        """Read a ragged column's lists in these rows from the parts; empty where there is none."""
        self._all_rows()
        starts = np.cumsum([0, *(origin.rows for origin in self._origins)])
        wanted = np.unique(np.searchsorted(starts, rows[rows >= 0], side="right") - 1)
        read: dict[int, Ragged] = {}
        names = {int(i): self._origins[i].name for i in wanted if self._origins[i].name}
        if self.storage is not None and names:
            files = self.storage.read(self.folder, list(names.values()))
            paths = [self.storage.path(self.folder, name) for name in names.values()]
            sources = [files[name] for name in names.values()]
            with ThreadPoolExecutor(READER_THREADS) as pool:
                lists = pool.map(read_lists, sources, paths, [column] * len(sources))
                read = dict(zip(names, lists, strict=True))
        parts = [
            read.get(i) or origin.lists.get(column) or Ragged.empty(origin.rows)
            for i, origin in enumerate(self._origins)
        ]
        return Ragged.concatenate(parts).take(rows)

    def add(
        self,
        images: Sequence[str],
        texts: Sequence[str],
        columns: Mapping[str, FloatArray | Ragged],
    ) -> None:
        """Append answers as one part.

        Raises:
            InputError: the storage cannot be written.
        """
        import pyarrow as pa

        if not len(images):
            return
        content: dict[str, Any] = {
            "model": _constant_column(self.model, len(images)),
            "score": _constant_column(self.score, len(images)),
            "image": pa.array(images, pa.large_string()),
            "text": pa.array(texts, pa.large_string()),
        }
        numbers: dict[str, FloatArray] = {}
        lists: dict[str, Ragged] = {}
        for name, values in columns.items():
            if isinstance(values, Ragged):
                lists[name], content[name] = values, values.to_arrow()
                continue
            numbers[name] = values
            array = pa.array(np.ascontiguousarray(values).reshape(-1))
            if values.ndim > 1:
                array = pa.FixedSizeListArray.from_arrays(array, values.shape[1])
            content[name] = array
        part = pa.table(content)
        self._read_once()
        origin = PartOrigin(len(images), lists=lists)
        if self.storage is not None:
            name, encoded = encode_part(part, self.newest)
            origin = PartOrigin(len(images), name)
            self.storage.write(self.folder, name, encoded)
        self._parts.append(Part(pack_ids(images), pack_ids(texts), numbers))
        self._origins.append(origin)
        self._index = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        self._read_once()
        return sum(origin.rows for origin in self._origins)

    @property
    def newest(self) -> str:
        """Name of the newest part that was read or written; empty where there is none."""
        self._read_once()
        return max((origin.name for origin in self._origins), default="")

    def read_new(self) -> None:
        """Read the parts that other processes have added."""
        self._read_once()
        known = {origin.name for origin in self._origins}
        names = [] if self.storage is None else self.storage.names(self.folder)
        self._read_parts([name for name in names if name not in known])
        self._index = None

    def _all_rows(self) -> Part | None:
        """Return all rows as one part, reading them on first use; None while the table is empty."""
        self._read_once()
        if len(self._parts) > 1:  # not at every part that is added, which would copy all each time
            self._parts.append(join_parts(self._parts))
        return self._parts[0] if self._parts else None

    def _read_once(self) -> None:
        """Read the stored parts on first use."""
        if self._read:
            return
        self._read = True
        names = [] if self.storage is None else self.storage.names(self.folder)
        for start in range(0, len(names), PARTS_PER_FETCH):
            self._read_parts(names[start : start + PARTS_PER_FETCH])
            release_memory()
        self.rows_at_start = sum(origin.rows for origin in self._origins)

    def _read_parts(self, names: Sequence[str]) -> None:
        if self.storage is None:
            return
        files = self.storage.read(self.folder, names)
        paths = [self.storage.path(self.folder, name) for name in files]
        with ThreadPoolExecutor(READER_THREADS) as pool:
            parts = pool.map(_read_packed, files.values(), paths)
            for name, path, part in zip(files, paths, parts, strict=True):
                if part is None:
                    self._set_aside(name, path)
                    continue
                self._parts.append(part)
                self._origins.append(PartOrigin(len(part.images), name))

    def _set_aside(self, name: str, path: Path | str) -> None:
        """Rename a damaged part, and warn."""
        renamed = self.storage is not None and self.storage.set_aside(self.folder, name)
        warnings.warn(
            f"{path}: is a damaged part of the cache; it was "
            f"{'set aside' if renamed else 'not read'}, and what it held is scored again.",
            DamageWarning,
            stacklevel=2,
        )


def _constant_column(text: str, rows: int) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), pa.array([text]))


class AnswerStore:
    """Answer tables of a storage backend, or of memory when there is none."""

    def __init__(self, where: Path | str | None = None):
        """Open a store in a folder, or at a URL that fsspec understands.

        Raises:
            InputError: the storage cannot be made or written.
            MissingExtraError: a URL, and fsspec is not installed.
        """
        self.storage = None if where is None else open_storage(where)
        self._tables: dict[tuple[str, str], AnswerTable] = {}
        if self.storage is not None:
            self.storage.prepare()

    def table(self, fingerprint: str, score: str) -> AnswerTable:
        """Return the answer table of a model and a score, opened once."""
        key = fingerprint, score
        if key not in self._tables:
            folder = f"answers/{folder_name(fingerprint)}/{folder_name(score)}"
            storage = None if fingerprint.startswith(UNSTORED) else self.storage
            self._tables[key] = AnswerTable(storage, folder, fingerprint, score)
        return self._tables[key]

    def append_table(self, fingerprint: str, score: str, newest: str) -> AnswerTable:
        """Return a new table that reads nothing and appends parts behind the newest one."""
        table = self.table(fingerprint, score)
        return replace(table, _parts=[], _origins=[PartOrigin(0, newest)], _index=None, _read=True)


def folder_name(text: str) -> str:
    """Return a readable folder name, different for different texts."""
    plain = re.sub(r"[^A-Za-z0-9.+-]+", "_", text).strip("._")[:48]
    if plain == text:
        return plain
    return f"{plain}-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"
