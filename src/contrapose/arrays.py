"""Array helpers that several rooms share: ragged arrays, distinct values, hashes, unit vectors."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer[Any]]

T = TypeVar("T", bound=Hashable)

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""Odd number that spreads the bits of a key."""

TEXTS_PER_BLOCK = 1 << 16
"""Texts that are hashed at a time, in a processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Ragged array: rows of different length, stored end to end.

    A model may return tensors; the methods below are for NumPy arrays.

    Attributes:
        values: (total,) the values of all rows.
        offsets: (n + 1,) where each row begins in `values`, and the end of the last.
    """

    values: Any
    offsets: Any

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Any:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @classmethod
    def of(cls, lists: Iterable[Sequence[int]]) -> Ragged:
        """Build a ragged array of integers from lists."""
        rows = list(lists)
        sizes = np.array([len(row) for row in rows], dtype=np.int64)
        values = np.array([value for row in rows for value in row], dtype=np.int64)
        return cls(values, _offsets(sizes))

    @classmethod
    def empty(cls, count: int) -> Ragged:
        """Build `count` empty rows of float32 values."""
        return cls(np.zeros(0, dtype=np.float32), np.zeros(count + 1, dtype=np.int64))

    @classmethod
    def concatenate(cls, parts: Sequence[Ragged]) -> Ragged:
        """Concatenate the rows of several arrays."""
        if not parts:
            return cls.empty(0)
        starts = np.cumsum([0, *(len(part.values) for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, starts, strict=False)]
        return cls(
            np.concatenate([part.values for part in parts]),
            np.concatenate([np.zeros(1, np.int64), *offsets]),
        )

    def take(self, rows: Integers) -> Ragged:
        """Select rows in this order; row −1 is empty."""
        known = rows >= 0
        starts = np.where(known, self.offsets[rows], 0)
        sizes = np.where(known, self.offsets[rows + 1] - starts, 0)
        offsets = _offsets(sizes)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
        return Ragged(self.values[np.repeat(starts, sizes) + within], offsets)

    def draw(self, rows: Integers, chance: NDArray[np.float64]) -> NDArray[np.int64]:
        """Draw the index in `values` of one value of each row; −1 for an empty row.

        Args:
            rows: (b,) row numbers.
            chance: (b,) uniform numbers in [0, 1).
        """
        first = self.offsets[rows]
        size = self.offsets[rows + 1] - first
        return np.where(size > 0, first + (chance * size).astype(np.int64), -1)

    def to_arrow(self) -> Any:
        """Convert to an Arrow list array; null for empty rows."""
        import pyarrow as pa

        empty = np.diff(self.offsets) == 0
        return pa.ListArray.from_arrays(
            pa.array(self.offsets, pa.int32(), mask=np.append(empty, False)), pa.array(self.values)
        )

    @classmethod
    def from_arrow(cls, column: Any) -> Ragged:
        """Convert from an Arrow column of lists of numbers; null becomes an empty row."""
        chunk = column.combine_chunks()
        sizes = np.asarray(chunk.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
        values = np.asarray(chunk.flatten().to_numpy(zero_copy_only=False), dtype=np.float32)
        return cls(values, _offsets(sizes))


def find_distinct(values: Sequence[T]) -> tuple[list[T], Integers]:
    """Return the distinct values in order of first appearance, and the index of each value.

    An object that occurs many times is hashed once: object identity is far cheaper to compare than
    what the object holds. Texts keep their hash themselves.
    """
    position: dict[T, int]
    if values and isinstance(values[0], str):
        unique = dict.fromkeys(values)
        if len(unique) == len(values):
            return list(unique), np.arange(len(values))
        position = dict(zip(unique, range(len(unique)), strict=True))
        return list(unique), np.fromiter(map(position.__getitem__, values), np.int64, len(values))
    by_object = {id(value): value for value in values}
    position = {}
    of_object = {key: position.setdefault(value, len(position)) for key, value in by_object.items()}
    index = np.fromiter(map(of_object.__getitem__, map(id, values)), np.int64, len(values))
    return list(position), index


def hash_texts(data: Any, offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hash texts to 64 bits each, word by word of 8 bytes; equal texts have equal hashes.

    Args:
        data: the bytes of all texts, end to end.
        offsets: (n + 1,) where each text begins, and the end of the last.
    """
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    letters = np.zeros(size + 8, np.uint8)
    letters[:size] = np.frombuffer(data, np.uint8)[first : first + size]
    words: NDArray[np.uint64] = np.ndarray((size + 1,), np.uint64, letters, strides=(1,))
    masks = np.array([(1 << 8 * k) - 1 for k in range(9)], np.uint64)
    begins, sizes = offsets[:-1] - first, np.diff(offsets)
    hashes = sizes.astype(np.uint64)
    for row in range(0, len(sizes), TEXTS_PER_BLOCK):
        block = slice(row, row + TEXTS_PER_BLOCK)
        some, starts, left = hashes[block], begins[block], sizes[block]
        for at in range(0, int(left.max()), 8):
            word = words[np.minimum(starts + at, size)]
            word &= masks[np.clip(left - at, 0, 8)]
            some ^= word
            some *= MULTIPLIER
            some ^= some >> np.uint64(29)
    return hashes


def normalize_rows(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Scale vectors along the last axis to unit length; computed in float64, returned in float32.

    A vector of zeros stays zero.
    """
    wide = vectors.astype(np.float64, copy=False)
    length = np.sqrt((wide**2).sum(axis=-1, keepdims=True))
    return np.asarray(wide / np.maximum(length, 1e-12), dtype=np.float32)


def to_array(values: Any) -> NDArray[Any]:
    """Convert a tensor of any device and type, or an array-like, to a NumPy array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = (
            values.float() if values.is_floating_point() and values.element_size() < 4 else values
        )
        return np.asarray(values.numpy())
    return np.asarray(values)


def _offsets(sizes: NDArray[Any]) -> Integers:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
