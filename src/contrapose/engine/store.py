"""Content-addressed store of scores: append-only Parquet parts, one table per model and score.

A part that has its name is complete, whenever its writer was killed; what was left under a
temporary name is never read. Names of parts sort by the order of writing, so that the newest answer
counts where something was scored again. Any number of programs may add to a table at once: each
writes parts of its own, and none is ever changed or deleted. A part whose bytes do not have the
digest in its name is named in a warning and set aside; its pairs are scored again.

    ROOT/answers/<model fingerprint>/<score>/<part>.parquet    model, score, image, text, value, …

In memory a row is packed ids, keys and numbers, and never a Python object. Rows are held and
indexed in blocks, so that no copy of a whole table is made.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.arrays import Ragged
from contrapose.engine.pair_index import PairIds, PairIndex, pack_ids
from contrapose.engine.part_files import encode_part, read_lists, read_part, release_memory
from contrapose.engine.storage import StorageBackend, folder_name, open_storage
from contrapose.errors import DamageWarning
from contrapose.metrics import FloatArray, IntArray
from contrapose.models.capabilities import UNSTORED

BLOCK_ROWS, BLOCK_BYTES = 1 << 24, 1 << 30
"""Rows and bytes of a block up to which parts are joined."""


@dataclass(slots=True, eq=False)
class Block:
    """Successive rows of an answer table in memory: packed ids, numeric columns, and an index.

    Attributes:
        ids: ids of images and captions, row by row.
        columns: numbers by name: (n,), or (n, d) for vectors; ragged columns are read on demand.
        index: of the pairs; None until one is looked up.
    """

    ids: PairIds
    columns: Mapping[str, FloatArray]
    index: PairIndex | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without the index."""
        return self.ids.nbytes + sum(column.nbytes for column in self.columns.values())


def join_blocks(blocks: list[Block]) -> Block:
    """Concatenate blocks row-wise, and empty the list: joined columns replace theirs one by one."""
    ids = [block.ids for block in blocks]
    columns = {name: [block.columns[name] for block in blocks] for name in blocks[0].columns}
    blocks.clear()
    joined = PairIds.concatenate(ids)
    ids.clear()
    return Block(joined, {name: _join_column(some) for name, some in columns.items()})


def _join_column(blocks: list[Any]) -> Any:
    joined = np.concatenate(blocks)
    blocks.clear()
    return joined


def _read_block(source: Path | bytes, path: Path | str) -> tuple[Block, str] | None:
    """Read a part and pack its ids, and the shard that wrote it; None when it is damaged."""
    part = read_part(source, path)
    if part is None:
        return None
    ids = PairIds(pack_ids(part.images), part.codes.astype(np.int32), pack_ids(part.texts))
    return Block(ids, part.columns), part.shard


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

PARTS_PER_READ = 8
"""Parts that are read ahead of the block that they join."""

PARTS_PER_FETCH = 64
"""Parts that are fetched from a remote storage at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class PartOrigin:
    """Origin of a block of rows: a stored part, or memory alone.

    Attributes:
        rows: number of rows.
        name: name of the stored part; empty for memory alone.
        lists: ragged columns of rows in memory alone.
        shard: the shard that wrote the part; empty for none.
    """

    rows: int
    name: str = ""
    lists: Mapping[str, Ragged] = field(default_factory=dict)
    shard: str = ""


@dataclass(slots=True)
class AnswerTable:
    """Answers of one model under one score name: append-only parts with an index over them.

    Attributes:
        storage: where parts are stored; None keeps them in memory alone.
        folder: the table's folder in the storage.
        model: the model's fingerprint.
        score: the score's name in the store.
        shard: the shard that adds parts, such as `2/8`; empty for none.
        rows_at_start: rows that were stored when the table was first read.
    """

    storage: StorageBackend | None
    folder: str
    model: str
    score: str
    shard: str = ""
    rows_at_start: int = 0
    _blocks: list[Block] = field(default_factory=list)
    _parts: list[Block] = field(default_factory=list)
    _origins: list[PartOrigin] = field(default_factory=list)
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
        result = np.full(len(pairs), -1, dtype=np.int64)
        blocks = self._all_blocks()
        if not blocks or not len(pairs):
            return result
        packed = pack_ids(images), pack_ids(texts)
        start = sum(map(len, blocks))
        left = np.arange(len(pairs))  # those that no newer block holds
        for block in reversed(blocks):
            start -= len(block)
            if block.index is None:
                block.index = PairIndex.of(block.ids)
            rows = block.index.find(*packed, pairs if len(left) == len(pairs) else pairs[left])
            known = rows >= 0
            result[left[known]] = start + rows[known]
            left = left[~known]
            if not len(left):
                break
        return result

    def values(self, rows: IntArray, column: str = "value") -> FloatArray:
        """Return a column's values in these rows: (n,), or (n, d) for vectors; NaN for row −1."""
        blocks = self._all_blocks()
        if not blocks:
            return np.full((len(rows), 0) if column == "vector" else len(rows), np.nan)
        first = blocks[0].columns[column]
        values = np.full((len(rows), *first.shape[1:]), np.nan, dtype=first.dtype)
        start = 0
        for block in blocks:
            inside = np.flatnonzero((rows >= start) & (rows < start + len(block)))
            values[inside] = block.columns[column][rows[inside] - start]
            start += len(block)
        return values

    def lists(self, rows: IntArray, column: str) -> Ragged:
        """Read a ragged column's lists in these rows from the parts; empty where there is none."""
        self._read_once()
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
            name, encoded = encode_part(part, self.newest, self.shard)
            origin = PartOrigin(len(images), name, shard=self.shard)
            self.storage.write(self.folder, name, encoded)
        self._append(Block(PairIds.of(images, texts), numbers), origin)

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

    @property
    def shard_count(self) -> tuple[str, int]:
        """Newest part that a shard wrote, and of how many shards it is one; 0 for none."""
        self._read_once()
        written = ((origin.name, origin.shard) for origin in self._origins if origin.shard)
        name, shard = max(written, default=("", ""))
        count = shard.rpartition("/")[2]
        return name, int(count) if count.isdecimal() else 0

    def _append(self, block: Block, origin: PartOrigin) -> None:
        """Append rows behind all others; parts are joined when they fill a block."""
        self._parts.append(block)
        self._origins.append(origin)
        rows = sum(map(len, self._parts))
        if rows >= BLOCK_ROWS or sum(part.nbytes for part in self._parts) >= BLOCK_BYTES:
            self._blocks.append(join_blocks(self._parts))

    def _all_blocks(self) -> list[Block]:
        """Return all rows as few blocks, reading them on first use."""
        self._read_once()
        if self._parts:  # not at every part that is added, which would copy all each time
            last = self._blocks[-1] if self._blocks else None
            rows = sum(map(len, self._parts)) + (len(last) if last else 0)
            size = sum(part.nbytes for part in self._parts) + (last.nbytes if last else 0)
            if last is not None and rows < BLOCK_ROWS and size < BLOCK_BYTES:
                self._parts.insert(0, self._blocks.pop())
            last = None
            self._blocks.append(
                self._parts.pop() if len(self._parts) == 1 else join_blocks(self._parts)
            )
        return self._blocks

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
        named = list(zip(files.items(), paths, strict=True))
        with ThreadPoolExecutor(READER_THREADS) as pool:
            for start in range(0, len(named), PARTS_PER_READ):
                some = named[start : start + PARTS_PER_READ]
                parts = pool.map(lambda item: _read_block(item[0][1], item[1]), some)
                for ((name, _), path), part in zip(some, parts, strict=True):
                    if part is None:
                        self._set_aside(name, path)
                        continue
                    block, shard = part
                    self._append(block, PartOrigin(len(block), name, shard=shard))

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

    def __init__(self, where: Path | str | None = None, *, shard: str = ""):
        """Open a store in a folder, or at a URL that fsspec understands.

        Args:
            where: the folder or URL; None keeps everything in memory.
            shard: the shard that adds parts, such as `2/8`; its parts say so.

        Raises:
            InputError: the storage cannot be made or written.
            MissingExtraError: a URL, and fsspec is not installed.
        """
        self.storage = None if where is None else open_storage(where)
        self.shard = shard
        self._tables: dict[tuple[str, str], AnswerTable] = {}
        if self.storage is not None:
            self.storage.prepare()

    def table(self, fingerprint: str, score: str) -> AnswerTable:
        """Return the answer table of a model and a score, opened once."""
        key = fingerprint, score
        if key not in self._tables:
            folder = f"answers/{folder_name(fingerprint)}/{folder_name(score)}"
            storage = None if fingerprint.startswith(UNSTORED) else self.storage
            self._tables[key] = AnswerTable(storage, folder, fingerprint, score, self.shard)
        return self._tables[key]

    def append_table(self, fingerprint: str, score: str, newest: str) -> AnswerTable:
        """Return a new table that reads nothing and appends parts behind the newest one."""
        table = self.table(fingerprint, score)
        origins = [PartOrigin(0, newest)]
        return replace(table, _blocks=[], _parts=[], _origins=origins, _read=True)
