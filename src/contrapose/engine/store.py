"""Content-addressed store of scores: append-only Parquet parts, one table per model and score.

A part that has its name is complete, whenever its writer was killed; what was left under a
temporary name is never read. Names of parts sort by the order of writing, so that the newest answer
counts where something was scored again. Any number of programs may add to a table at once: each
writes parts of its own, and none is ever changed or deleted. A part whose bytes do not have the
digest in its name is named in a warning and set aside; its pairs are scored again.

    ROOT/answers/<model fingerprint>/<score>/<part>.parquet    model, score, image, text, value, …

The characters of an id are packed into 64-bit words. A pair's key is a multiply-add hash of its
words; the seed is changed until no two different pairs of a table share a key, and every hit is
compared word by word, so that a key can never stand for another pair.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose.arrays import Ragged
from contrapose.engine.storage import (
    StorageBackend,
    encode_part,
    open_storage,
    read_lists,
    read_part,
)
from contrapose.errors import DamageWarning
from contrapose.metrics import FloatArray, IntArray
from contrapose.models.capabilities import UNSTORED

IdWords = NDArray[np.uint64]
"""(n, w) ids, eight bytes per word; shorter ids are zero-padded."""


@dataclass(frozen=True, slots=True, eq=False)
class PairIndex:
    """Sorted hash index over the (image, caption) id pairs of a table.

    Attributes:
        images: image ids, row by row.
        texts: caption ids, row by row.
        seed: of the hash's multipliers.
        keys: the pairs' hashes, sorted.
        rows: the rows of the hashes; of equal pairs the newest is the last.
    """

    images: IdWords
    texts: IdWords
    seed: int
    keys: IdWords
    rows: IntArray

    @classmethod
    def of(cls, image: IdWords, text: IdWords) -> PairIndex:
        """Build the index of a table's ids, row by row."""
        for seed in count():
            keys = _hash_ids(image, seed, 0) + _hash_ids(text, seed, 1)
            rows = np.argsort(keys, kind="stable")
            keys = keys[rows]
            twins = np.flatnonzero(keys[1:] == keys[:-1])
            a, b = rows[twins], rows[twins + 1]
            if (image[a] == image[b]).all() and (text[a] == text[b]).all():
                break
        return cls(image, text, seed, keys, rows)

    def find(self, images: Sequence[str], texts: Sequence[str], pairs: IntArray) -> IntArray:
        """Return the newest row of each pair; −1 where it has none."""
        image, text = pack_ids(images), pack_ids(texts)
        wanted = (
            _hash_ids(image, self.seed, 0)[pairs[:, 0]] + _hash_ids(text, self.seed, 1)[pairs[:, 1]]
        )
        last = np.searchsorted(self.keys, wanted, side="right") - 1
        hit = np.flatnonzero((last >= 0) & (self.keys[last] == wanted))
        rows = self.rows[last[hit]]
        equal = _equal_ids(self.images, rows, image, pairs[hit, 0])
        equal &= _equal_ids(self.texts, rows, text, pairs[hit, 1])
        result = np.full(len(pairs), -1, dtype=np.int64)
        result[hit[equal]] = rows[equal]
        return result


def pack_ids(ids: Sequence[str] | Any) -> IdWords:
    """Pack ids, a sequence of strings or an Arrow large-string column, into 64-bit words."""
    letters, lengths = _id_bytes(ids) if isinstance(ids, Sequence) else _arrow_id_bytes(ids)
    longest = int(lengths.max(initial=0))
    width = -(-longest // 8)
    if longest % 8 == 0 and (lengths == longest).all():
        padded = letters.reshape(len(lengths), longest)
    else:
        padded = np.zeros((len(lengths), 8 * width), dtype=np.uint8)
        padded[np.arange(8 * width) < lengths[:, None]] = letters
    return np.ascontiguousarray(padded).view(np.uint64).reshape(len(lengths), width)


def stack_id_words(parts: Sequence[IdWords]) -> IdWords:
    """Concatenate packed ids; narrower ones are zero-padded."""
    width = max(part.shape[1] for part in parts)
    return np.concatenate(
        [
            part if part.shape[1] == width else np.pad(part, ((0, 0), (0, width - part.shape[1])))
            for part in parts
        ]
    )


def _id_bytes(ids: Sequence[str]) -> tuple[NDArray[np.uint8], IntArray]:
    """Return the UTF-8 bytes of all ids, and the length of each."""
    joined = "".join(ids)
    sizes: Iterable[int] = map(len, ids)
    if not joined.isascii():
        sizes = (len(name.encode()) for name in ids)
    return np.frombuffer(joined.encode(), np.uint8), np.fromiter(sizes, np.int64, len(ids))


def _arrow_id_bytes(column: Any) -> tuple[NDArray[np.uint8], IntArray]:
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]], np.diff(ends)


def _hash_ids(words: IdWords, seed: int, which: int) -> IdWords:
    """Hash packed ids to (n,) 64-bit keys; zero padding does not change a key."""
    draw = np.random.default_rng((seed, which))
    keys = np.zeros(len(words), dtype=np.uint64)
    for column in words.T:
        keys += column * np.uint64(2 * int(draw.integers(2**62)) + 1)
    return keys


def _equal_ids(
    known: IdWords, rows: IntArray, wanted: IdWords, positions: IntArray
) -> NDArray[np.bool_]:
    """Compare packed ids element by element, whatever their padding."""
    common = min(known.shape[1], wanted.shape[1])
    same = np.ones(len(rows), dtype=np.bool_)
    for i in range(common):
        same &= known[:, i][rows] == wanted[:, i][positions]
    if known.shape[1] > common:
        same &= (known[:, common:] == 0).all(axis=1)[rows]
    if wanted.shape[1] > common:
        same &= (wanted[:, common:] == 0).all(axis=1)[positions]
    return same


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


def join_parts(parts: Sequence[Part]) -> Part:
    """Concatenate parts row-wise."""
    return Part(
        stack_id_words([part.images for part in parts]),
        stack_id_words([part.texts for part in parts]),
        {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns},
    )


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
            "model": pa.array([self.model] * len(images)).dictionary_encode(),
            "score": pa.array([self.score] * len(images)).dictionary_encode(),
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
        self._all_rows()
        origin = PartOrigin(len(images), lists=lists)
        if self.storage is not None:
            newest = max((origin.name for origin in self._origins), default="")
            name, encoded = encode_part(part, newest)
            origin = PartOrigin(len(images), name)
            self.storage.write(self.folder, name, encoded)
        self._parts.append(Part(pack_ids(images), pack_ids(texts), numbers))
        self._origins.append(origin)
        self._index = None

    def _all_rows(self) -> Part | None:
        """Return all rows as one part, reading them on first use; None while the table is empty."""
        if not self._read:
            self._read = True
            self._parts = self._read_parts()
            self.rows_at_start = sum(len(part.images) for part in self._parts)
        if len(self._parts) > 1:
            self._parts = [join_parts(self._parts)]
        return self._parts[0] if self._parts else None

    def _read_parts(self) -> list[Part]:
        if self.storage is None:
            return []
        files = self.storage.read(self.folder, self.storage.names(self.folder))
        paths = [self.storage.path(self.folder, name) for name in files]
        parts = []
        with ThreadPoolExecutor(READER_THREADS) as pool:
            contents = pool.map(read_part, files.values(), paths)
            for name, path, content in zip(files, paths, contents, strict=True):
                if content is None:
                    self._set_aside(name, path)
                    continue
                images, texts, columns = content
                parts.append(Part(pack_ids(images), pack_ids(texts), columns))
                self._origins.append(PartOrigin(len(images), name))
        return parts

    def _set_aside(self, name: str, path: Path | str) -> None:
        """Rename a damaged part, and warn."""
        renamed = self.storage is not None and self.storage.set_aside(self.folder, name)
        warnings.warn(
            f"{path}: is a damaged part of the cache; it was "
            f"{'set aside' if renamed else 'not read'}, and what it held is scored again.",
            DamageWarning,
            stacklevel=2,
        )


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


def folder_name(text: str) -> str:
    """Return a readable folder name, different for different texts."""
    plain = re.sub(r"[^A-Za-z0-9.+-]+", "_", text).strip("._")[:48]
    if plain == text:
        return plain
    return f"{plain}-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"
