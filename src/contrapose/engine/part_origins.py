"""Origins of rows: parts and their vectors, which are read for the rows that are asked for.

Every block of vectors is compared with its digest whenever it is read, so that a changed vector is
never used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from contrapose.arrays import Ragged
from contrapose.engine.part_files import VectorLayout, vector_digest
from contrapose.engine.part_reader import FETCH_BYTES
from contrapose.engine.storage import StorageBackend
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray, IntArray

RUN_BYTES = 1 << 24
"""Bytes of successive blocks that are read at a time."""

RECENT_BYTES = 1 << 28
"""Bytes of new vectors that stay in memory."""


class DamagedPartError(InputError):
    """A part of the store was damaged since it was first read."""

    def __init__(self, path: object):
        super().__init__(
            "is a damaged part of the cache; start the command again, and what it held is scored "
            "again.",
            file=str(path),
        )


@dataclass(slots=True, eq=False)
class PartVectors:
    """Vectors of one part, in the storage or in memory.

    Attributes:
        storage: where the part is stored.
        folder: the folder of its table.
        name: its name.
        layout: where its vectors lie.
        memory: all vectors, where they are held in memory.
        checked: for each block whether its digest was compared.
    """

    storage: StorageBackend | None
    folder: str
    name: str
    layout: VectorLayout | None
    memory: FloatArray | None = None
    checked: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        blocks = 0 if self.layout is None else len(self.layout.digests) // 8
        self.checked = np.zeros(blocks, dtype=np.bool_)

    @property
    def shape(self) -> tuple[int, np.dtype[np.floating]]:
        """Numbers of a vector, and their type."""
        if self.memory is not None:
            return self.memory.shape[1], self.memory.dtype
        return (0, np.dtype("<f4")) if self.layout is None else _shape(self.layout)

    def check(self, rows: IntArray) -> bool:
        """Whether the vectors of these rows are as they were written; a block is read once."""
        if self.memory is not None or self.layout is None:
            return True
        blocks = np.unique(rows // self.layout.block_rows)
        blocks = blocks[~self.checked[blocks]]
        if any(vectors is None for _, vectors in self._iterate(blocks, self.layout)):
            return False
        self.checked[blocks] = True
        return True

    def copy(self, rows: IntArray, target: FloatArray, positions: IntArray) -> None:
        """Copy the vectors of these rows to positions of an array.

        Raises:
            InputError: the part was damaged since it was first read, or has vectors of another
                width.
        """
        if self.shape[0] != target.shape[1]:
            raise DamagedPartError(self._path())
        if self.memory is not None or self.layout is None:
            target[positions] = self.memory[rows] if self.memory is not None else np.nan
            return
        order = np.argsort(rows, kind="stable")
        rows, positions = rows[order], positions[order]
        blocks = np.unique(rows // self.layout.block_rows)
        for start, vectors in self._iterate(blocks, self.layout):
            if vectors is None:
                raise DamagedPartError(self._path())
            a, b = np.searchsorted(rows, (start, start + len(vectors)))
            target[positions[a:b]] = vectors[rows[a:b] - start]

    def _path(self) -> object:
        return self.storage.path(self.folder, self.name) if self.storage else self.folder

    def _iterate(
        self, blocks: IntArray, layout: VectorLayout
    ) -> Iterator[tuple[int, FloatArray | None]]:
        """Iterate over runs of blocks: first row and vectors; None where they are damaged."""
        if self.storage is None or not len(blocks):
            return
        size = layout.block_rows * layout.row_bytes
        most = max(1, RUN_BYTES // max(size, 1))
        breaks = np.flatnonzero(np.diff(blocks) != 1) + 1
        runs = [
            run[k : k + most] for run in np.split(blocks, breaks) for k in range(0, len(run), most)
        ]
        step = max(1, FETCH_BYTES // RUN_BYTES)
        for start in range(0, len(runs), step):
            some = runs[start : start + step]
            ranges = [
                (
                    self.name,
                    layout.start + int(run[0]) * size,
                    layout.start + min((int(run[-1]) + 1) * size, layout.rows * layout.row_bytes),
                )
                for run in some
            ]
            contents = self.storage.read_ranges(self.folder, ranges)
            for run, (_, begin, end), content in zip(some, ranges, contents, strict=True):
                first = int(run[0]) * layout.block_rows
                sound = len(content) == end - begin and _has_digests(content, size, run, layout)
                width, dtype = _shape(layout)
                vectors = np.frombuffer(content, dtype).reshape(-1, width) if sound else None
                yield first, vectors


def _shape(layout: VectorLayout) -> tuple[int, np.dtype[np.floating]]:
    return layout.width, np.dtype(layout.dtype)


def _has_digests(content: bytes, size: int, run: IntArray, layout: VectorLayout) -> bool:
    """Whether the blocks of a run have their digests."""
    view = memoryview(content)
    return all(
        vector_digest(view[k * size : (k + 1) * size]) == layout.digests[8 * block : 8 * block + 8]
        for k, block in enumerate(run.tolist())
    )


@dataclass(slots=True, eq=False)
class PartOrigin:
    """Origin of successive rows: a stored part, or memory alone.

    Attributes:
        start: number of the first row in the table.
        rows: number of rows.
        name: name of the stored part; empty for memory alone.
        lists: ragged columns of rows in memory alone.
        shard: the shard that wrote the part; empty for none.
        vectors: the rows' vectors; None where they have none.
        held: whether all rows are held in memory.
        damaged: whether the part was set aside since it was first read.
    """

    start: int
    rows: int
    name: str = ""
    lists: Mapping[str, Ragged] = field(default_factory=dict)
    shard: str = ""
    vectors: PartVectors | None = None
    held: bool = False
    damaged: bool = False


def group_rows(
    origins: Sequence[PartOrigin], rows: IntArray
) -> Iterator[tuple[PartOrigin, IntArray]]:
    """Group positions of row numbers by the origins of the rows; −1 has none."""
    starts = np.array([origin.start for origin in origins], dtype=np.int64)
    number = np.searchsorted(starts, rows, side="right") - 1
    number[rows < 0] = -1
    order = np.argsort(number, kind="stable")
    for inside in np.split(order, np.flatnonzero(np.diff(number[order])) + 1):
        if len(inside) and number[inside[0]] >= 0:
            yield origins[number[inside[0]]], inside


def trim_memory(origins: Sequence[PartOrigin]) -> None:
    """Forget the oldest of many new vectors, which their parts hold."""
    size = 0
    for origin in reversed(origins):
        if origin.vectors is None or origin.vectors.memory is None or not origin.name:
            continue
        size += origin.vectors.memory.nbytes
        if size > RECENT_BYTES:
            origin.vectors.memory = None
