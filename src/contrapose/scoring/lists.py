"""A list of numbers for each answer: token by token, of any length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from contrapose.metrics import IntArray

Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Lists, row after row; an empty one where nothing is known.

    Attributes:
        values: (total,) the numbers of all rows.
        offsets: (n + 1,) where each row's begin, and the end.
    """

    values: Float32
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Float32:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @classmethod
    def none(cls, count: int) -> Self:
        """So many rows of which nothing is known."""
        return cls(np.zeros(0, dtype=np.float32), np.zeros(count + 1, dtype=np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Lists]) -> Self:
        """Lists under each other."""
        ends = np.cumsum([0, *(len(part.values) for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, ends, strict=False)]
        return cls(
            np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)]),
            np.concatenate([np.zeros(1, np.int64), *offsets]),
        )

    def take(self, rows: IntArray) -> Lists:
        """Some of the rows, in this order; row −1 is empty."""
        known = rows >= 0
        starts = np.where(known, self.offsets[rows], 0)
        sizes = np.where(known, self.offsets[rows + 1] - starts, 0)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
        return Lists(self.values[np.repeat(starts, sizes) + within], offsets)

    def column(self) -> Any:
        """The same for Arrow; null where nothing is known."""
        import pyarrow as pa

        empty = np.diff(self.offsets) == 0
        return pa.ListArray.from_arrays(
            pa.array(self.offsets, pa.int32(), mask=np.append(empty, False)), pa.array(self.values)
        )


def lists_of(column: Any) -> Lists:
    """Lists from a column of Arrow's, null or not."""
    chunk = column.combine_chunks()
    sizes = np.asarray(chunk.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    values = np.asarray(chunk.flatten().to_numpy(zero_copy_only=False), dtype=np.float32)
    return Lists(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]))
