"""Image bytes inside Parquet files, read a row group at a time and the last few kept.

A file of the hub holds about a hundred images a row group, and a group can only be read whole:
without a memory of it, every image would cost a hundred.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from contrapose.errors import InputError

BUDGET = 1 << 29
"""Bytes of row groups kept in memory, 512 MiB; one larger than that is kept alone."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Where an image's bytes lie inside a Parquet file: a column and a row."""

    column: str
    row: int


def cell_bytes(path: Path, cell: Cell) -> bytes:
    """The bytes in a cell: bare, or the `bytes` field of a struct as the hub stores images.

    Raises:
        InputError: the file, the column or the row is not there, or holds no bytes.
    """
    import pyarrow as pa

    try:
        value = _GROUPS.value(path, cell)
    except FileNotFoundError:
        raise InputError("does not exist.", file=path) from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"is not a readable Parquet file ({error}).", file=path) from None
    content = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(content, bytes):
        raise InputError(
            f"holds no image bytes in column {cell.column!r}, row {cell.row}.", file=path
        )
    return content


@dataclass(slots=True)
class _RowGroups:
    """The row groups read last, at most `BUDGET` bytes of them; safe to share by threads."""

    kept: OrderedDict[tuple[Path, int, int, str], Any] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def value(self, path: Path, cell: Cell) -> Any:
        """What stands in the cell; None when the column or the row is not there."""
        changed = path.stat().st_mtime_ns
        with self.lock:  # one thread reads a group, the others wait for it instead of reading too
            for (file, when, first, column), values in self.kept.items():
                within = first <= cell.row < first + len(values)
                if (file, when, column) == (path, changed, cell.column) and within:
                    self.kept.move_to_end((file, when, first, column))
                    return values[cell.row - first].as_py()
            first, values = _read_group(path, cell)
            if values is None:
                return None
            self.kept[path, changed, first, cell.column] = values
            while len(self.kept) > 1 and sum(group.nbytes for group in self.kept.values()) > BUDGET:
                self.kept.popitem(last=False)
        return values[cell.row - first].as_py()


_GROUPS = _RowGroups()


def _read_group(path: Path, cell: Cell) -> tuple[int, Any]:
    """The column's part of the row group that holds the row, and the group's first row."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        if cell.column not in file.schema_arrow.names:
            return 0, None
        first = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if first <= cell.row < first + rows:
                return first, file.read_row_group(group, columns=[cell.column]).column(cell.column)
            first += rows
    return 0, None
