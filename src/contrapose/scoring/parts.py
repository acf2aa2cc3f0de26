"""Parts of a shelf: ids and numbers, as they are read from a file and held in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.errors import InputError
from contrapose.metrics import FloatArray
from contrapose.scoring.index import Words, stacked, words_of

NAMES = ("model", "score", "image", "text")
"""Columns that say what the numbers are of."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some answers.

    Attributes:
        images: ids, row by row.
        texts: ids, row by row.
        columns: the numbers by name: (n,), or (n, d) for vectors.
    """

    images: Words
    texts: Words
    columns: Mapping[str, FloatArray]


def joined(parts: Sequence[Part]) -> Part:
    """Parts under each other."""
    return Part(
        stacked([part.images for part in parts]),
        stacked([part.texts for part in parts]),
        {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns},
    )


def read_part(source: Any, shown: Path | str) -> Part:
    """A part from what pyarrow can read.

    Raises:
        InputError: it is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source) as file:
            names = [name for name in file.schema_arrow.names if name not in ("model", "score")]
            table = file.read(columns=names, use_threads=False).combine_chunks()
        image, text = (
            words_of(_chunk(table[name].cast(pa.large_string()))) for name in ("image", "text")
        )
        return Part(
            image,
            text,
            {name: _numbers(_chunk(table[name])) for name in names if name not in NAMES},
        )
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(
            f"is a damaged part of the cache ({reason}); delete this file, and what it held is "
            "asked again.",
            file=shown,
        ) from None


def _chunk(column: Any) -> Any:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _numbers(column: Any) -> FloatArray:
    if hasattr(column, "flatten") and hasattr(column.type, "list_size"):
        flat = np.asarray(column.flatten().to_numpy(zero_copy_only=False))
        return flat.reshape(len(column), column.type.list_size)
    return np.asarray(column.to_numpy(zero_copy_only=False))
