"""Reader of the parts of an answer table: fetched without their vectors, verified and decoded.

Parts are fetched and decoded in threads. Where only some pairs are wanted, the rows of others are
dropped there, so that memory follows what is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from contrapose.arrays import Ragged
from contrapose.data.text_columns import ID_BYTES, IdWords
from contrapose.engine.pair_index import PairFilter, PairIds
from contrapose.engine.part_files import (
    ID_COLUMNS,
    MODEL_KEY,
    PART_NAME,
    SCORE_KEY,
    SHARD_KEY,
    VECTOR_KEY,
    VectorLayout,
    find_cut,
    footer_bytes,
    parse_layout,
)
from contrapose.engine.storage import StorageBackend
from contrapose.errors import InputError, first_line
from contrapose.files import digest
from contrapose.metrics import FloatArray, IntArray

T = TypeVar("T")

READER_THREADS = 4
"""Threads that read parts."""

PARTS_PER_FETCH, ROWS_PER_FETCH = 16, 1 << 18
"""Parts that a thread fetches at a time, at the most, and rows of several, by those before them."""

TAIL_BYTES, FETCH_BYTES = 1 << 16, 1 << 26
"""Bytes of a part's end that are fetched first, and of several parts that are fetched at a time; no
footer is longer."""


@dataclass(frozen=True, slots=True, eq=False)
class PartBytes:
    """Bytes of a part without its vectors.

    Attributes:
        content: the bytes.
        cut: position of the vectors, or of the footer where there are none.
    """

    content: bytes
    cut: int


def fetch_parts(
    storage: StorageBackend, folder: str, names: Sequence[str]
) -> Iterator[PartBytes | None]:
    """Fetch parts without their vectors, some at a time; None for one that cannot be one.

    Raises:
        InputError: the storage cannot be read.
    """
    tails = storage.read_ranges(folder, [(name, -TAIL_BYTES, None) for name in names])
    long = [
        k
        for k, tail in enumerate(tails)
        if TAIL_BYTES <= len(tail) < footer_bytes(tail) <= FETCH_BYTES
    ]
    wanted = [(names[k], -footer_bytes(tails[k]), None) for k in long]
    for k, tail in zip(long, storage.read_ranges(folder, wanted), strict=True):
        tails[k] = tail
    cuts = [find_cut(tail) for tail in tails]
    fronts: dict[int, bytes] = {}
    for k, (tail, cut) in enumerate(zip(tails, cuts, strict=True)):
        if cut is None:
            yield None
            continue
        footer = tail[-footer_bytes(tail) :]
        if len(tail) < TAIL_BYTES:  # the file
            yield PartBytes(tail[:cut] + footer, cut)
            continue
        if k not in fronts:
            fronts = _fetch_fronts(storage, folder, names, cuts, k)
        yield PartBytes(fronts.pop(k) + footer, cut)


def _fetch_fronts(
    storage: StorageBackend,
    folder: str,
    names: Sequence[str],
    cuts: Sequence[int | None],
    first: int,
) -> dict[int, bytes]:
    """Fetch what lies in front of the vectors: of one part, and of as many after it as fit."""
    chosen, size = [first], cuts[first] or 0
    for k in range(first + 1, len(names)):
        size += cuts[k] or 0
        if size > FETCH_BYTES:
            break
        chosen.append(k)
    fronts = storage.read_ranges(folder, [(names[k], 0, cuts[k] or 0) for k in chosen])
    return dict(zip(chosen, fronts, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class PartContent:
    """Rows of a part, all or some, without lists and vectors.

    Attributes:
        ids: the ids, row by row.
        columns: numbers and texts by name.
        kept: positions of the rows in the part; None for all.
        rows: number of all rows of the part.
        model: fingerprint of the model that gave the answers.
        score: the score's name in the store.
        shard: the shard that wrote the part, such as `2/8`; empty for none.
        vectors: layout of the vectors; None where there are none.
    """

    ids: PairIds
    columns: Mapping[str, FloatArray]
    kept: IntArray | None
    rows: int
    model: str
    score: str
    shard: str
    vectors: VectorLayout | None

    def select(self, wanted: PairFilter) -> PartContent:
        """Keep the rows of a filter alone."""
        kept = wanted.select(self.ids)
        columns = {name: column[kept] for name, column in self.columns.items()}
        return replace(self, ids=self.ids.select(kept), columns=columns, kept=kept)


def decode_part(
    part: PartBytes | None, name: str, wanted: PairFilter | None = None
) -> PartContent | None:
    """Decode a part, all rows or those of a filter; None where its bytes are damaged."""
    cut = 0 if part is None else part.cut
    return _decode(part, name, lambda file: _read_rows(file, cut, wanted))


def _read_rows(file: Any, cut: int, wanted: PairFilter | None) -> PartContent:
    """Read the rows of a filter from an open part."""
    import pyarrow as pa

    schema = file.schema_arrow
    metadata = schema.metadata or {}
    layout = parse_layout(cut, file.metadata.num_rows, metadata.get(VECTOR_KEY))
    names = [
        field.name
        for field in list(schema)[: -1 if layout else None]
        if field.name not in ID_COLUMNS and not pa.types.is_list(field.type)
    ]
    ids = _read_ids(file.read(columns=["image", "text"], use_threads=False))
    shard = metadata.get(SHARD_KEY, b"").decode()
    content = PartContent(ids, {}, None, len(ids), *_read_table_names(file), shard, layout)
    if wanted is not None:
        content = content.select(wanted)
    if not names or not len(content.ids):
        return replace(content, columns={key: np.zeros(0) for key in names})
    table = file.read(columns=names, use_threads=False)
    columns = {key: _column_to_numpy(_combine_chunks(table[key])) for key in names}
    if content.kept is not None:
        columns = {key: column[content.kept] for key, column in columns.items()}
    return replace(content, columns=columns)


def _read_table_names(file: Any) -> tuple[str, str]:
    """Read the model and the score of an open part: from its metadata, or from its columns.

    Raises:
        ValueError: it has several.
    """
    metadata = file.schema_arrow.metadata or {}
    if MODEL_KEY in metadata and SCORE_KEY in metadata:
        return metadata[MODEL_KEY].decode(), metadata[SCORE_KEY].decode()
    table = file.read(columns=["model", "score"], use_threads=False)
    entries = [_combine_chunks(table[name]).dictionary for name in ("model", "score")]
    if any(len(distinct) != 1 for distinct in entries):
        raise ValueError("it is not of one model and one score")
    return str(entries[0][0]), str(entries[1][0])


def _decode_lists(part: PartBytes | None, name: str, column: str) -> Ragged | None:
    """Decode one ragged column of a part; None where its bytes are damaged."""

    def read(file: Any) -> Ragged:
        if column not in file.schema_arrow.names:
            return Ragged.empty(file.metadata.num_rows)
        return Ragged.from_arrow(file.read(columns=[column], use_threads=False)[column])

    return _decode(part, name, read)


def _decode(part: PartBytes | None, name: str, read: Callable[[Any], T]) -> T | None:
    """Read from a part whose bytes have the digest in its name; None where they are damaged.

    Raises:
        InputError: the bytes are sound, and Arrow cannot decode them, as without zstd.
        MemoryError: memory ran out, which says nothing about the part.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    parsed = PART_NAME.fullmatch(name)
    if part is None or parsed is None or parsed[2] != digest(part.content):
        return None
    try:
        with pq.ParquetFile(pa.BufferReader(part.content), read_dictionary=["image"]) as file:
            return read(file)
    except MemoryError:
        raise
    except (KeyError, ValueError):  # a file of another program
        return None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot be decoded ({first_line(error)}).", file=name) from None


def release_memory() -> None:
    """Give memory that Arrow keeps for later reads back to the system."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def _read_ids(table: Any) -> PairIds:
    """Read the packed ids of a part.

    Raises:
        ValueError: they are of another size.
    """
    images = _combine_chunks(table["image"].unify_dictionaries())
    names = images.dictionary
    _, ends, data = names.buffers()
    sizes = np.diff(np.frombuffer(ends, np.int32)[names.offset : names.offset + len(names) + 1])
    texts = _combine_chunks(table["text"])
    if (sizes != ID_BYTES).any() or texts.type.byte_width != ID_BYTES:
        raise ValueError("its ids have another size")
    return PairIds(
        _words(data, names.offset, len(names)),
        _column_to_numpy(images.indices).astype(np.int32, copy=False),
        _words(texts.buffers()[1], texts.offset, len(texts)),
    )


def _words(data: Any, offset: int, count: int) -> IdWords:
    if not count:
        return np.zeros((0, 2), dtype=np.uint64)
    return np.frombuffer(data, np.uint64, 2 * count, ID_BYTES * offset).reshape(-1, 2)


def _combine_chunks(column: Any) -> Any:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _column_to_numpy(column: Any) -> Any:
    """Numbers or texts of an Arrow array; numbers without nulls are shared, without pandas."""
    import pyarrow as pa

    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if column.null_count or not is_number:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return np.from_dlpack(column)


def read_parts(
    storage: StorageBackend | None,
    folder: str,
    names: Sequence[str],
    wanted: Callable[[], PairFilter | None],
) -> Iterator[tuple[str, PartContent | None]]:
    """Read parts in threads, some ahead of the one that is used; None for a damaged one.

    Args:
        storage: where they are; None has none.
        folder: the folder of their table.
        names: their names.
        wanted: gives the filter of the rows to keep, which may change meanwhile; None keeps all.

    Raises:
        InputError: the storage cannot be read.
    """
    if storage is None or not names:
        return

    def decode(group: Sequence[str], keep: PairFilter | None) -> list[PartContent | None]:
        parts = zip(group, fetch_parts(storage, folder, group), strict=True)
        return [decode_part(part, name, keep) for name, part in parts]

    start = done = rows = 0
    with ThreadPoolExecutor(READER_THREADS) as pool:
        ahead: deque[tuple[Sequence[str], Future[list[PartContent | None]]]] = deque()
        while start < len(names) or ahead:
            while start < len(names) and len(ahead) < READER_THREADS:
                size = min(PARTS_PER_FETCH, ROWS_PER_FETCH * done // max(rows, 1))
                group = names[start : start + max(1, size)]
                ahead.append((group, pool.submit(decode, group, wanted())))
                start += len(group)
            group, future = ahead.popleft()
            for name, part in zip(group, future.result(), strict=True):
                done, rows = done + 1, rows + (0 if part is None else part.rows)
                yield name, part
    release_memory()


def read_lists(
    storage: StorageBackend | None, folder: str, names: Sequence[str], column: str
) -> Iterator[Ragged | None]:
    """Read one ragged column of parts, some at a time; None for a damaged one.

    Raises:
        InputError: the storage cannot be read.
    """
    if storage is None:
        return
    with ThreadPoolExecutor(READER_THREADS) as pool:
        for start in range(0, len(names), PARTS_PER_FETCH):
            some = names[start : start + PARTS_PER_FETCH]
            parts = list(fetch_parts(storage, folder, some))
            yield from pool.map(_decode_lists, parts, some, [column] * len(some))
