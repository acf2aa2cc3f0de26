"""Parquet parts of an answer table: their names, layout and encoding.

A part's name holds a number, by which parts sort in the order of writing, and a digest, so that no
damage passes for an answer. Vectors, as bytes of fixed size without compression, are the last
column of the one row group: they lie end to end in front of the footer, which holds a digest of
every block of them. The digest in the name is of all other bytes. So ids and numbers are read and
verified without the vectors, and a vector with its block alone.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from contrapose.arrays import Ragged
from contrapose.data.text_columns import ID_BYTES, IdWords
from contrapose.engine.pair_index import PairIds
from contrapose.metrics import FloatArray

PART_NAME = re.compile(r"([0-8][0-9]{19})-([0-9a-f]{16})\.parquet")
"""Name of a part: its number, by which parts sort, and the digest of its bytes."""

LAST_NUMBER = 9 * 10**19 - 1
"""Highest number of a part; a higher one in a name would leave no room for the next part."""

ID_COLUMNS = ("model", "score", "image", "text")
"""Columns that identify a row."""

MODEL_KEY, SCORE_KEY, SHARD_KEY, VECTOR_KEY = b"model", b"score", b"shard", b"vectors"
"""Keys of a part's metadata: the model and the score of its rows, which are read with the footer,
the shard that wrote it, and type and digests of its vectors."""

DICTIONARY_BYTES = 1 << 26
"""Bytes of distinct image ids up to which a part numbers them."""

VECTOR_BLOCK_BYTES = 1 << 18
"""Bytes of vectors that have a digest of their own."""

MAX_VECTOR_BYTES, MAX_PAGE_ROWS = 1 << 30, 16_384
"""Bytes of a part's vectors, and rows where the Parquet writer would begin a second page."""

VECTOR_TYPES = ("<f2", "<f4", "<f8")
"""Types of the numbers of a vector."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorLayout:
    """Layout of the vectors in a part.

    Attributes:
        start: position of the first byte in the file.
        rows: number of vectors.
        width: numbers of each.
        dtype: type of the numbers.
        block_rows: vectors of a block.
        digests: 8 bytes for each block.
    """

    start: int
    rows: int
    width: int
    dtype: str
    block_rows: int
    digests: bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a vector."""
        return self.width * int(self.dtype[2:])


def vector_digest(block: bytes | memoryview) -> bytes:
    """Digest of a block of vectors."""
    return hashlib.blake2b(block, digest_size=8).digest()


@cache
def _page_options() -> dict[str, Any]:
    """Options that let a Parquet writer write a column as one page; empty where there are none."""
    import pyarrow.parquet as pq

    known = "max_rows_per_page" in inspect.signature(pq.ParquetWriter.__init__).parameters
    return {"max_rows_per_page": (1 << 31) - 1} if known else {}


def max_part_rows(columns: Mapping[str, FloatArray | Ragged]) -> int:
    """Rows of a part at the most: of those with vectors as many as fit in one page."""
    widths = [
        column.nbytes // max(len(column), 1)
        for column in columns.values()
        if not isinstance(column, Ragged) and column.ndim > 1
    ]
    if not widths:
        return 1 << 62
    rows = max(1, MAX_VECTOR_BYTES // max(widths[0], 1))
    return rows if _page_options() else min(rows, MAX_PAGE_ROWS)


def encode_part(
    ids: PairIds,
    columns: Mapping[str, FloatArray | Ragged],
    *,
    model: str,
    score: str,
    newest: str = "",
    shard: str = "",
) -> tuple[str, bytes, VectorLayout | None]:
    """Encode rows as a Parquet part, and lay out its vectors; its name sorts behind all others.

    The number is the time in nanoseconds, or one more than the newest part's where a clock was set
    back.

    Args:
        ids: the rows' ids.
        columns: numbers, texts, lists, and vectors in one column at the most, by name.
        model: the model's fingerprint.
        score: the score's name in the store.
        newest: name of the newest part of the folder; empty where there is none.
        shard: the shard that writes it, such as `2/8`; empty for none.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    vectors = {
        name: np.ascontiguousarray(column)
        for name, column in columns.items()
        if not isinstance(column, Ragged) and column.ndim > 1
    }
    arrays: dict[str, Any] = {
        "model": _constant_column(model, len(ids)),
        "score": _constant_column(score, len(ids)),
        "image": pa.DictionaryArray.from_arrays(ids.codes, _id_array(ids.images)),
        "text": _fixed_array(ids.texts),
    }
    for name, column in columns.items():
        if isinstance(column, Ragged):
            arrays[name] = column.to_arrow()
        elif name not in vectors:
            arrays[name] = pa.array(np.ascontiguousarray(column))
    arrays |= {name: _fixed_array(column) for name, column in vectors.items()}
    metadata = {MODEL_KEY: model.encode(), SCORE_KEY: score.encode()}
    if shard:
        metadata[SHARD_KEY] = shard.encode()
    for column in vectors.values():
        metadata[VECTOR_KEY] = _describe_vectors(column)
    schema = pa.schema(
        [pa.field(name, a.type, nullable=pa.types.is_list(a.type)) for name, a in arrays.items()],
        metadata,
    )
    plain = {*vectors, *(["text"] if _differ(ids.texts) else [])}
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays(list(arrays.values()), schema=schema),
        sink,
        row_group_size=max(1, len(ids)),
        compression={name: "none" if name in plain else "zstd" for name in arrays},
        use_dictionary=[name for name in arrays if name in ID_COLUMNS[:3]],
        dictionary_pagesize_limit=DICTIONARY_BYTES,
        data_page_size=2 * MAX_VECTOR_BYTES if vectors else None,
        write_statistics=False,
        **(_page_options() if vectors else {}),
    )
    content: bytes = sink.getvalue().to_pybytes()
    before = PART_NAME.fullmatch(newest)
    number = min(max(time.time_ns(), int(before[1]) + 1 if before else 0), LAST_NUMBER)
    footer = footer_bytes(content)
    start = find_cut(content[-footer:]) or 0
    if any(not content.startswith(column[0].tobytes(), start) for column in vectors.values()):
        raise RuntimeError("the Parquet writer did not write vectors end to end")
    name = f"{number:020d}-{_digest_two(content, start, len(content) - footer)}.parquet"
    return name, content, parse_layout(start, len(ids), metadata.get(VECTOR_KEY))


def _digest_two(content: bytes, end: int, start: int) -> str:
    """Digest of a part's bytes in front of its vectors and behind them."""
    view = memoryview(content)
    checked = hashlib.blake2b(view[:end], digest_size=8)
    checked.update(view[start:])
    return checked.hexdigest()


def _describe_vectors(vectors: FloatArray) -> bytes:
    """Describe type and blocks of vectors, with digests, for a part's metadata."""
    row = vectors.nbytes // len(vectors)
    block_rows = max(1, VECTOR_BLOCK_BYTES // max(row, 1))
    digests = b"".join(
        vector_digest(vectors[k : k + block_rows].data) for k in range(0, len(vectors), block_rows)
    )
    described = {
        "dtype": vectors.dtype.newbyteorder("<").str,
        "width": vectors.shape[1],
        "block_rows": block_rows,
        "digests": digests.hex(),
    }
    return json.dumps(described).encode()


def _constant_column(text: str, rows: int) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), pa.array([text]))


def _id_array(ids: IdWords) -> Any:
    """Convert packed ids to an Arrow array of 16 bytes each, which may be a dictionary."""
    import pyarrow as pa

    ends = np.arange(0, ID_BYTES * len(ids) + 1, ID_BYTES, dtype=np.int32)
    data = pa.py_buffer(np.ascontiguousarray(ids))
    return pa.Array.from_buffers(pa.binary(), len(ids), [None, pa.py_buffer(ends), data])


def _fixed_array(rows: Any) -> Any:
    """Convert the rows of an array to an Arrow array of bytes of fixed size."""
    import pyarrow as pa

    size = rows.nbytes // max(len(rows), 1)
    data = pa.py_buffer(np.ascontiguousarray(rows))
    return pa.Array.from_buffers(pa.binary(size), len(rows), [None, data])


def _differ(ids: IdWords) -> bool:
    return bool((ids != ids[:1]).any())


def footer_bytes(tail: bytes) -> int:
    """Bytes of a Parquet file's footer, with its length and the mark behind it."""
    return int.from_bytes(tail[-8:-4], "little") + 8


def parse_layout(start: int, rows: int, described: bytes | None) -> VectorLayout | None:
    """Parse the layout of a part's vectors.

    Raises:
        ValueError: it is none, as no part of this program has.
    """
    if described is None:
        return None
    values = json.loads(described)
    digests = bytes.fromhex(values["digests"])
    layout = VectorLayout(
        start, rows, int(values["width"]), values["dtype"], int(values["block_rows"]), digests
    )
    blocks = -(-rows // layout.block_rows)
    if layout.dtype not in VECTOR_TYPES or len(digests) != 8 * blocks:
        raise ValueError("its vectors are not described")
    return layout


def find_cut(tail: bytes) -> int | None:
    """Find where a part's vectors begin, or its footer, from its end; None for no part.

    Raises:
        MemoryError: memory ran out, which says nothing about the part.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(tail))
        group = file.metadata.row_group(0)
        column = group.column(group.num_columns - 1)
        end = column.data_page_offset
        if column.has_dictionary_page:
            end = min(end, column.dictionary_page_offset)
        end += column.total_compressed_size
        if VECTOR_KEY in (file.schema_arrow.metadata or {}):
            end -= group.num_rows * file.schema_arrow.field(group.num_columns - 1).type.byte_width
    except MemoryError:
        raise
    except (
        *(pa.ArrowException, OSError, ValueError, AttributeError, IndexError, OverflowError),
    ) as error:
        if "bad_alloc" in str(error):  # Arrow's own reader of footers has no other word for it
            raise MemoryError(str(error)) from None
        return None
    return int(end) if end >= 0 else None
