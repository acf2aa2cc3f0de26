"""Parquet parts of an answer table: encoded with checksums, and read with their digests checked.

A part's name holds a number, by which parts sort in the order of writing, and a digest of its
bytes, so that no damage passes for an answer.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.arrays import Ragged
from contrapose.engine.storage import explain
from contrapose.errors import InputError
from contrapose.files import digest
from contrapose.metrics import FloatArray

PART_NAME = re.compile(r"(\d{20})-([0-9a-f]{16})\.parquet")
"""Name of a part: its number, by which parts sort, and the digest of its bytes."""


ID_COLUMNS = ("model", "score", "image", "text")
"""Columns that identify a row."""

SHARD_KEY = b"shard"
"""Key of a part's metadata: the shard that wrote it."""

DICTIONARY_BYTES = 1 << 26
"""Bytes of distinct image ids up to which a part numbers them."""


def encode_part(table: Any, newest: str, shard: str = "") -> tuple[str, bytes]:
    """Encode a table as a Parquet part with page checksums; its name sorts behind all others.

    The number is the time in nanoseconds, or one more than the newest part's where a clock was set
    back.

    Args:
        table: the Arrow table.
        newest: name of the newest part of the folder; empty where there is none.
        shard: the shard that writes it, such as `2/8`; empty for none.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if shard:
        table = table.replace_schema_metadata({SHARD_KEY: shard})
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=[name for name in table.column_names if name in ID_COLUMNS[:3]],
        dictionary_pagesize_limit=DICTIONARY_BYTES,
    )
    content: bytes = sink.getvalue().to_pybytes()
    before = PART_NAME.fullmatch(newest)
    number = max(time.time_ns(), int(before[1]) + 1 if before else 0)
    return f"{number:020d}-{digest(content)}.parquet", content


@dataclass(frozen=True, slots=True, eq=False)
class PartContent:
    """Rows of a Parquet part, without its ragged columns.

    Attributes:
        images: distinct image ids, an Arrow large-string array.
        codes: position of each row's image in them.
        texts: caption ids, row by row, an Arrow large-string array.
        columns: numbers by name.
        shard: the shard that wrote the part, such as `2/8`; empty for none.
    """

    images: Any
    codes: Any
    texts: Any
    columns: dict[str, FloatArray]
    shard: str


def read_part(source: Path | bytes, path: Path | str) -> PartContent | None:
    """Read a Parquet part without its ragged columns; a damaged part is None.

    Raises:
        InputError: the part may not be read.
    """
    import pyarrow as pa

    try:
        with _open_part(source, path) as file:
            metadata = file.schema_arrow.metadata or {}
            names = [
                field.name
                for field in file.schema_arrow
                if field.name not in ("model", "score") and not pa.types.is_list(field.type)
            ]
            table = file.read(columns=names, use_threads=False)
        images = _combine_chunks(table["image"].unify_dictionaries())
        return PartContent(
            images.dictionary.cast(pa.large_string()),
            images.indices.to_numpy(),
            _combine_chunks(table["text"].cast(pa.large_string())),
            {
                name: _column_to_numpy(_combine_chunks(table[name]))
                for name in names
                if name not in ID_COLUMNS
            },
            metadata.get(SHARD_KEY, b"").decode(),
        )
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return None


def release_memory() -> None:
    """Give memory that Arrow keeps for later reads back to the system."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def read_lists(source: Path | bytes, path: Path | str, name: str) -> Ragged:
    """Read one ragged column of a Parquet part.

    Raises:
        InputError: the part was damaged since it was first read.
    """
    import pyarrow as pa

    try:
        with _open_part(source, path) as file:
            return Ragged.from_arrow(file.read(columns=[name], use_threads=False)[name])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise InputError(
            f"is a damaged part of the cache ({explain(error)}); start the command again, and what "
            "it held is scored again.",
            file=path,
        ) from None


def _open_part(source: Path | bytes, path: Path | str) -> Any:
    """Open a part whose bytes have the digest in its name.

    Raises:
        ValueError: they have another.
        InputError: the file may not be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        content = source.read_bytes() if isinstance(source, Path) else source
    except PermissionError as error:
        raise InputError(f"cannot be read ({error.strerror}).", file=path) from None
    name = PART_NAME.fullmatch(str(path).rpartition("/")[2] if isinstance(path, str) else path.name)
    if name is None or name[2] != digest(content):
        raise ValueError("its bytes have another digest than its name says")
    return pq.ParquetFile(
        pa.BufferReader(content), page_checksum_verification=True, read_dictionary=["image"]
    )


def _combine_chunks(column: Any) -> Any:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _column_to_numpy(column: Any) -> FloatArray:
    if hasattr(column, "flatten") and hasattr(column.type, "list_size"):
        flat = np.asarray(column.flatten().to_numpy(zero_copy_only=False))
        return flat.reshape(len(column), column.type.list_size)
    return np.asarray(column.to_numpy(zero_copy_only=False))
