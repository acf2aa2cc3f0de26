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
from contrapose.scoring.lists import Lists, lists_of

NAMES = ("model", "score", "image", "text")
"""Columns that say what the numbers are of."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some answers.

    Attributes:
        images: ids, row by row.
        texts: ids, row by row.
        columns: the numbers by name: (n,), or (n, d) for vectors; lists are left where they are.
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


def stacked_columns(
    parts: Sequence[Mapping[str, FloatArray | Lists]],
) -> dict[str, FloatArray | Lists]:
    """Columns under each other, numbers and lists."""
    found: dict[str, FloatArray | Lists] = {}
    for name in parts[0]:
        each = [part[name] for part in parts]
        lists = [one for one in each if isinstance(one, Lists)]
        plain = [one for one in each if not isinstance(one, Lists)]
        found[name] = Lists.joined(lists) if lists else np.concatenate(plain)
    return found


def read_part(source: Any, shown: Path | str) -> Part:
    """A part from what pyarrow can read, without its lists.

    Raises:
        InputError: it is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source) as file:
            names = [
                field.name
                for field in file.schema_arrow
                if field.name not in ("model", "score") and not pa.types.is_list(field.type)
            ]
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
        raise _damaged(error, shown) from None


def read_lists(source: Any, shown: Path | str, name: str) -> Lists:
    """One column of lists of a part; empty ones where it was written without.

    Raises:
        InputError: it is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source) as file:
            if name not in file.schema_arrow.names:
                return Lists.none(file.metadata.num_rows)
            return lists_of(file.read(columns=[name], use_threads=False)[name])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise _damaged(error, shown) from None


def _damaged(error: Exception, shown: Path | str) -> InputError:
    reason = str(error).partition("\n")[0].rstrip(".")
    return InputError(
        f"is a damaged part of the cache ({reason}); delete this file, and what it held is "
        "asked again.",
        file=shown,
    )


def _chunk(column: Any) -> Any:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _numbers(column: Any) -> FloatArray:
    if hasattr(column, "flatten") and hasattr(column.type, "list_size"):
        flat = np.asarray(column.flatten().to_numpy(zero_copy_only=False))
        return flat.reshape(len(column), column.type.list_size)
    return np.asarray(column.to_numpy(zero_copy_only=False))
