"""Parts of an answer table: ids packed as integers, ragged list columns, and Parquet files.

The characters of an id are packed into 64-bit words. A pair's key is a multiply-add hash of its
words; the seed is changed until no two different pairs of a table share a key, and every hit is
compared word by word, so that a key can never stand for another pair.

The characters of an id are taken as numbers of eight bytes. A pair's number is a sum of products of
them; two pairs on a shelf that had the same one would get others, and what is found is compared
character by character, so that a number can never stand for another pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from contrapose.errors import InputError
from contrapose.metrics import FloatArray, IntArray

Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class ListColumn:
    """Ragged column: one list of numbers per row, empty where nothing is known.

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
        """Build a column of empty lists."""
        return cls(np.zeros(0, dtype=np.float32), np.zeros(count + 1, dtype=np.int64))

    @classmethod
    def joined(cls, parts: Sequence[ListColumn]) -> Self:
        """Concatenate columns row-wise."""
        ends = np.cumsum([0, *(len(part.values) for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, ends, strict=False)]
        return cls(
            np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)]),
            np.concatenate([np.zeros(1, np.int64), *offsets]),
        )

    def take(self, rows: IntArray) -> ListColumn:
        """Select rows in this order; row −1 is empty."""
        known = rows >= 0
        starts = np.where(known, self.offsets[rows], 0)
        sizes = np.where(known, self.offsets[rows + 1] - starts, 0)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
        return ListColumn(self.values[np.repeat(starts, sizes) + within], offsets)

    def column(self) -> Any:
        """Convert to an Arrow list array; null where nothing is known."""
        import pyarrow as pa

        empty = np.diff(self.offsets) == 0
        return pa.ListArray.from_arrays(
            pa.array(self.offsets, pa.int32(), mask=np.append(empty, False)), pa.array(self.values)
        )


def list_column_from_arrow(column: Any) -> ListColumn:
    """Build a ragged column from an Arrow list column with or without nulls."""
    chunk = column.combine_chunks()
    sizes = np.asarray(chunk.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    values = np.asarray(chunk.flatten().to_numpy(zero_copy_only=False), dtype=np.float32)
    return ListColumn(values, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]))


IdWords = NDArray[np.uint64]
"""(n, w) ids, eight characters a number; shorter ones are filled up with zeros."""


@dataclass(frozen=True, slots=True, eq=False)
class PairIndex:
    """Sorted hash index over the (image, caption) id pairs of a table.

    Attributes:
        images: their ids, row by row.
        texts: the same of captions.
        seed: of the numbers that ids are multiplied with.
        keys: the pairs' numbers, sorted.
        rows: the rows they stand for; of equals the newest is the last.
    """

    images: IdWords
    texts: IdWords
    seed: int
    keys: IdWords
    rows: IntArray

    @classmethod
    def of(cls, image: IdWords, text: IdWords) -> PairIndex:
        """Build the index of a table's ids, row by row."""
        for seed in count():
            keys = _hash_ids(image, seed, 0) + _hash_ids(text, seed, 1)
            rows = np.argsort(keys, kind="stable")
            keys = keys[rows]
            twins = np.flatnonzero(keys[1:] == keys[:-1])
            a, b = rows[twins], rows[twins + 1]
            if (image[a] == image[b]).all() and (text[a] == text[b]).all():
                break
        return cls(image, text, seed, keys, rows)

    def find(self, images: Sequence[str], texts: Sequence[str], pairs: IntArray) -> IntArray:
        """Return the newest row of each pair; −1 where it has none."""
        image, text = pack_ids(images), pack_ids(texts)
        wanted = (
            _hash_ids(image, self.seed, 0)[pairs[:, 0]] + _hash_ids(text, self.seed, 1)[pairs[:, 1]]
        )
        at = np.searchsorted(self.keys, wanted, side="right") - 1
        hit = np.flatnonzero((at >= 0) & (self.keys[at] == wanted))
        rows = self.rows[at[hit]]
        there = _equal_ids(self.images, rows, image, pairs[hit, 0])
        there &= _equal_ids(self.texts, rows, text, pairs[hit, 1])
        found = np.full(len(pairs), -1, dtype=np.int64)
        found[hit[there]] = rows[there]
        return found


def pack_ids(ids: Sequence[str] | Any) -> IdWords:
    """Pack ids, a sequence of strings or an Arrow large-string column, into 64-bit words."""
    letters, lengths = _id_bytes(ids) if isinstance(ids, Sequence) else _arrow_id_bytes(ids)
    longest = int(lengths.max(initial=0))
    width = -(-longest // 8)
    if longest % 8 == 0 and (lengths == longest).all():
        whole = letters.reshape(len(lengths), longest)
    else:
        whole = np.zeros((len(lengths), 8 * width), dtype=np.uint8)
        whole[np.arange(8 * width) < lengths[:, None]] = letters
    return np.ascontiguousarray(whole).view(np.uint64).reshape(len(lengths), width)


def stack_id_words(parts: Sequence[IdWords]) -> IdWords:
    """Concatenate packed ids; narrower ones are zero-padded."""
    width = max(part.shape[1] for part in parts)
    return np.concatenate(
        [
            part if part.shape[1] == width else np.pad(part, ((0, 0), (0, width - part.shape[1])))
            for part in parts
        ]
    )


def _id_bytes(ids: Sequence[str]) -> tuple[NDArray[np.uint8], IntArray]:
    """Return the UTF-8 bytes of all ids, and the length of each."""
    joined = "".join(ids)
    sizes: Iterable[int] = map(len, ids)
    if not joined.isascii():
        sizes = (len(each.encode()) for each in ids)
    return np.frombuffer(joined.encode(), np.uint8), np.fromiter(sizes, np.int64, len(ids))


def _arrow_id_bytes(column: Any) -> tuple[NDArray[np.uint8], IntArray]:
    _, places, data = column.buffers()
    ends = np.frombuffer(places, np.int64)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]], np.diff(ends)


def _hash_ids(words: IdWords, seed: int, which: int) -> IdWords:
    """Hash packed ids to (n,) 64-bit keys; zero padding does not change a key."""
    draw = np.random.default_rng((seed, which))
    found = np.zeros(len(words), dtype=np.uint64)
    for column in words.T:
        found += column * np.uint64(2 * int(draw.integers(2**62)) + 1)
    return found


def _equal_ids(
    known: IdWords, rows: IntArray, wanted: IdWords, places: IntArray
) -> NDArray[np.bool_]:
    """Compare packed ids element by element, whatever their padding."""
    common = min(known.shape[1], wanted.shape[1])
    same = np.ones(len(rows), dtype=np.bool_)
    for i in range(common):
        same &= known[:, i][rows] == wanted[:, i][places]
    if known.shape[1] > common:
        same &= (known[:, common:] == 0).all(axis=1)[rows]
    if wanted.shape[1] > common:
        same &= (wanted[:, common:] == 0).all(axis=1)[places]
    return same


ID_COLUMNS = ("model", "score", "image", "text")
"""Columns that say what the numbers are of."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Rows of an answer table in memory: packed ids and numeric columns.

    Attributes:
        images: ids, row by row.
        texts: ids, row by row.
        columns: the numbers by name: (n,), or (n, d) for vectors; lists are left where they are.
    """

    images: IdWords
    texts: IdWords
    columns: Mapping[str, FloatArray]


def join_parts(parts: Sequence[Part]) -> Part:
    """Concatenate parts row-wise."""
    return Part(
        stack_id_words([part.images for part in parts]),
        stack_id_words([part.texts for part in parts]),
        {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns},
    )


def stack_columns(
    parts: Sequence[Mapping[str, FloatArray | ListColumn]],
) -> dict[str, FloatArray | ListColumn]:
    """Concatenate columns row-wise, numeric and ragged."""
    found: dict[str, FloatArray | ListColumn] = {}
    for name in parts[0]:
        each = [part[name] for part in parts]
        lists = [one for one in each if isinstance(one, ListColumn)]
        plain = [one for one in each if not isinstance(one, ListColumn)]
        found[name] = ListColumn.joined(lists) if lists else np.concatenate(plain)
    return found


def read_part(source: Any, shown: Path | str) -> Part:
    """Read a Parquet part without its ragged columns.

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
            pack_ids(_combine_chunks(table[name].cast(pa.large_string())))
            for name in ("image", "text")
        )
        return Part(
            image,
            text,
            {
                name: _column_to_numpy(_combine_chunks(table[name]))
                for name in names
                if name not in ID_COLUMNS
            },
        )
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise _damaged_part_error(error, shown) from None


def read_lists(source: Any, shown: Path | str, name: str) -> ListColumn:
    """Read one ragged column of a Parquet part; empty lists where the part has no such column.

    Raises:
        InputError: it is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source) as file:
            if name not in file.schema_arrow.names:
                return ListColumn.none(file.metadata.num_rows)
            return list_column_from_arrow(file.read(columns=[name], use_threads=False)[name])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise _damaged_part_error(error, shown) from None


def _damaged_part_error(error: Exception, shown: Path | str) -> InputError:
    reason = str(error).partition("\n")[0].rstrip(".")
    return InputError(
        f"is a damaged part of the cache ({reason}); delete this file, and what it held is "
        "asked again.",
        file=shown,
    )


def _combine_chunks(column: Any) -> Any:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _column_to_numpy(column: Any) -> FloatArray:
    if hasattr(column, "flatten") and hasattr(column.type, "list_size"):
        flat = np.asarray(column.flatten().to_numpy(zero_copy_only=False))
        return flat.reshape(len(column), column.type.list_size)
    return np.asarray(column.to_numpy(zero_copy_only=False))
