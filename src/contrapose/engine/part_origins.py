"""Origins of rows: parts and their vectors, which are read for the rows that are asked for.

Every block of vectors is compared with its digest whenever it is read, so that a changed vector is
never used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from contrapose.arrays import Ragged
from contrapose.engine.part_files import VectorLayout, vector_digest
from contrapose.engine.part_reader import READER_THREADS
from contrapose.engine.storage import StorageBackend
from contrapose.errors import InputError
from contrapose.metrics import FloatArray, IntArray

RUN_BYTES, FETCH_BYTES = 1 << 22, 1 << 24
"""Bytes of successive blocks that are one range of a file, and of ranges read at a time."""

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


class DamagedVectorsError(DamagedPartError):
    """A vector is not as it was written; its part is set aside, and rows are to be found anew."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorFetch:
    """Vectors of some rows of a part, which are read at a time.

    Attributes:
        part: the part.
        runs: runs of successive blocks that hold them; none where the part is in memory.
        rows: the rows in the part, sorted.
        positions: where the caller wants each of them.
    """

    part: PartVectors
    runs: Sequence[IntArray]
    rows: IntArray
    positions: IntArray

    def read(self) -> FloatArray | None:
        """Read the vectors; None where they are damaged."""
        part = self.part
        if part.memory is not None:
            return _take(part.memory, self.rows)
        layout, storage = part.layout, part.storage
        if layout is None or storage is None:
            return None
        size = layout.block_rows * layout.row_bytes
        ranges = [
            (
                part.name,
                layout.start + int(run[0]) * size,
                layout.start + min((int(run[-1]) + 1) * size, layout.rows * layout.row_bytes),
            )
            for run in self.runs
        ]
        contents = storage.read_ranges(part.folder, ranges)
        width, dtype = part.shape
        taken: list[FloatArray] = []
        for run, (_, begin, end), content in zip(self.runs, ranges, contents, strict=True):
            if len(content) != end - begin or not _has_digests(content, size, run, layout):
                return None
            vectors = np.frombuffer(content, dtype).reshape(-1, width)
            first = int(run[0]) * layout.block_rows
            a, b = np.searchsorted(self.rows, (first, first + len(vectors)))
            taken.append(_take(vectors, self.rows[a:b] - first))
        return taken[0] if len(taken) == 1 else np.concatenate(taken)


def _take(vectors: FloatArray, rows: IntArray) -> FloatArray:
    """Take sorted rows; a view where they follow each other."""
    begin, end = int(rows[0]), int(rows[-1]) + 1
    successive = end - begin == len(rows) and bool((np.diff(rows) == 1).all())
    return vectors[begin:end] if successive else vectors[rows]


@dataclass(slots=True, eq=False)
class PartVectors:
    """Vectors of one part, in the storage or in memory.

    Attributes:
        storage: where the part is stored.
        folder: the folder of its table.
        name: its name.
        layout: where its vectors lie.
        memory: all vectors, where they are held in memory.
    """

    storage: StorageBackend | None
    folder: str
    name: str
    layout: VectorLayout | None
    memory: FloatArray | None = None

    @property
    def shape(self) -> tuple[int, np.dtype[np.floating]]:
        """Numbers of a vector, and their type."""
        if self.memory is not None:
            return self.memory.shape[1], self.memory.dtype
        if self.layout is None:
            return 0, np.dtype("<f4")
        return self.layout.width, np.dtype(self.layout.dtype)

    @property
    def path(self) -> object:
        """Where the part is, for messages."""
        return self.storage.path(self.folder, self.name) if self.storage else self.folder

    def cut(self, rows: IntArray, positions: IntArray) -> Iterator[VectorFetch]:
        """Cut rows into what is read at a time; of no block twice.

        Args:
            rows: rows in the part.
            positions: where the caller wants each of them.
        """
        if len(rows) > 1 and not (np.diff(rows) >= 0).all():
            order = np.argsort(rows, kind="stable")
            rows, positions = rows[order], positions[order]
        if self.memory is not None:
            step = max(1, FETCH_BYTES // max(self.memory[:1].nbytes, 1))
            for start in range(0, len(rows), step):
                end = start + step
                yield VectorFetch(self, (), rows[start:end], positions[start:end])
            return
        if self.layout is None or not len(rows):
            return
        block_rows = self.layout.block_rows
        size = max(block_rows * self.layout.row_bytes, 1)
        most, blocks = max(1, RUN_BYTES // size), np.unique(rows // block_rows)
        breaks = np.flatnonzero(np.diff(blocks) != 1) + 1
        runs = [
            run[k : k + most] for run in np.split(blocks, breaks) for k in range(0, len(run), most)
        ]
        ends = np.cumsum([len(run) * size for run in runs]) // FETCH_BYTES
        for some in np.split(np.arange(len(runs)), np.flatnonzero(np.diff(ends)) + 1):
            chosen = runs[some[0] : some[-1] + 1]
            a, b = np.searchsorted(
                rows, (chosen[0][0] * block_rows, (chosen[-1][-1] + 1) * block_rows)
            )
            yield VectorFetch(self, chosen, rows[a:b], positions[a:b])


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


def vector_shape(origins: Sequence[PartOrigin]) -> tuple[int, np.dtype[np.floating]]:
    """Numbers of a vector, and their type; 0 where no origin has vectors."""
    shapes = (origin.vectors.shape for origin in origins if origin.vectors is not None)
    return next(shapes, (0, np.dtype(np.float64)))


def read_vectors(
    origins: Sequence[PartOrigin], rows: IntArray, use: Callable[[IntArray, FloatArray], None]
) -> list[PartOrigin]:
    """Read the vectors of rows in threads; return the origins of which one is damaged.

    Args:
        origins: all origins.
        rows: the rows; −1 is none.
        use: receives positions in the rows and their vectors, in any order, some bytes at a time.

    Raises:
        DamagedPartError: a part has vectors of another width.
    """
    width, _ = vector_shape(origins)
    if not width:
        return []
    fetches: list[tuple[PartOrigin, VectorFetch]] = []
    for origin, inside in group_rows(origins, rows):
        if origin.vectors is None:
            continue
        if origin.vectors.shape[0] != width:
            raise DamagedPartError(origin.vectors.path)
        cut = origin.vectors.cut(rows[inside] - origin.start, inside)
        fetches += ((origin, fetch) for fetch in cut)

    def is_sound(fetch: VectorFetch) -> bool:
        vectors = fetch.read()
        if vectors is None:
            return False
        use(fetch.positions, vectors)
        return True

    if len(fetches) < 2:
        sound = [is_sound(fetch) for _, fetch in fetches]
    else:
        with ThreadPoolExecutor(min(READER_THREADS, len(fetches))) as pool:
            try:
                sound = list(pool.map(is_sound, (fetch for _, fetch in fetches)))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    damaged = [origin for (origin, _), good in zip(fetches, sound, strict=True) if not good]
    return list({id(origin): origin for origin in damaged}.values())


def trim_memory(origins: Sequence[PartOrigin]) -> None:
    """Forget the oldest of many new vectors, which their parts hold."""
    size = 0
    for origin in reversed(origins):
        if origin.vectors is None or origin.vectors.memory is None or not origin.name:
            continue
        size += origin.vectors.memory.nbytes
        if size > RECENT_BYTES:
            origin.vectors.memory = None
