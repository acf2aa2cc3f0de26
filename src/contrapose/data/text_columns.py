"""Columns of texts and of content ids: bytes end to end, without a Python object for each.

A hundred million captions are two arrays. Ids of many texts are computed by other processes, while
this one goes on; they are those of `text_id`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from contrapose.arrays import MULTIPLIER, find_distinct, hash_texts
from contrapose.data.forked_rows import ForkedRows, count_workers

Positions = NDArray[np.int64]

IdWords = NDArray[np.uint64]
"""(n, 2) ids of 128 bits."""

ID_BYTES = 16
"""Bytes of a content id."""

ROWS_PER_BLOCK = 1 << 16
"""Rows that are Python objects at a time."""

TEXTS_TO_SPLIT = 1 << 10
"""Texts from which they are split off one text, in less than half the time."""

LONGEST_KEYED = 64
"""Bytes of a text up to which a hash by array operations is quicker than a table of all texts."""

TEXTS_FOR_WORKERS = 200_000
"""Texts from which other processes hash them."""


class ContentIds(Sequence[str]):
    """Sequence of content ids, 128 bits each; an id is a text only when somebody reads it."""

    def __init__(self, words: IdWords | Callable[[], IdWords], count: int | None = None):
        """Hold ids, or a function that waits for them.

        Args:
            words: (n, 2) ids, or the function.
            count: number of ids, where they are still computed.
        """
        self._words = words
        self._count = len(words) if count is None and not callable(words) else int(count or 0)

    @property
    def words(self) -> IdWords:
        """(n, 2) ids; waits for them where they are still computed."""
        if callable(self._words):
            self._words = self._words()
        return self._words

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return self._read(self.words[index])
        digits: str = self.words[index].tobytes().hex()
        return digits

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), ROWS_PER_BLOCK):
            yield from self._read(self.words[start : start + ROWS_PER_BLOCK])

    @staticmethod
    def _read(words: IdWords) -> list[str]:
        digits = words.tobytes().hex()
        return [digits[k : k + 2 * ID_BYTES] for k in range(0, len(digits), 2 * ID_BYTES)]

    @classmethod
    def of(cls, ids: Sequence[str]) -> ContentIds:
        """Hold ids that are texts."""
        return ids if isinstance(ids, ContentIds) else cls(_to_words(bytes.fromhex("".join(ids))))

    def take(self, positions: Positions) -> ContentIds:
        """Select ids in this order."""
        return ContentIds(self.words[positions])

    def find_distinct(self) -> tuple[Positions | None, Positions]:
        """Where each distinct id appears first, None where all are distinct; and which each is."""
        words = self.words
        ordered = np.sort(words[:, 0])
        if not (ordered[1:] == ordered[:-1]).any():
            return None, np.arange(len(self))
        del ordered
        keys = words[:, 0] ^ (words[:, 1] * MULTIPLIER)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        if (words != words[first[inverse]]).any():  # another id has the same key
            index = find_distinct(self[:])[1].astype(np.int64)
            return np.unique(index, return_index=True)[1], index
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return first[order], rank[inverse]


def arrow_positions(positions: Positions) -> Any:
    """Arrow array of positions that shares their memory; made by Arrow it would import pandas."""
    import pyarrow as pa

    buffer = pa.py_buffer(np.ascontiguousarray(positions, dtype=np.int64))
    return pa.Array.from_buffers(pa.int64(), len(positions), [None, buffer])


class TextColumn(Sequence[str]):
    """Sequence of texts, stored as UTF-8 bytes end to end.

    A column of few texts keeps them as objects once one of them is read.

    Attributes:
        data: the bytes.
        offsets: (n + 1,) where each text begins in them, and the end of the last.
    """

    __slots__ = ("__weakref__", "_ids", "_values", "data", "offsets")

    def __init__(self, data: Any, offsets: Positions):
        self.data, self.offsets = memoryview(data), offsets
        self._values: tuple[str, ...] | None = None
        self._ids: ContentIds | None = None

    @classmethod
    def of(cls, texts: Sequence[str]) -> TextColumn:
        """Build a column of texts.

        Raises:
            UnicodeEncodeError: a text is not valid Unicode.
        """
        if isinstance(texts, TextColumn):
            return texts
        joined = "".join(texts)
        data = joined.encode()
        rows = texts if len(data) == len(joined) else [text.encode() for text in texts]
        sizes = np.fromiter(map(len, rows), np.int64, len(texts))
        column = cls(data, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]))
        column._values = tuple(texts)
        return column

    @classmethod
    def from_arrow(cls, array: Any) -> TextColumn:
        """Build a column of an Arrow array of strings without nulls, whose bytes it shares."""
        import pyarrow as pa

        if isinstance(array, pa.ChunkedArray):
            array = array.cast(pa.large_string()).combine_chunks()
        wide = pa.types.is_large_string(array.type)
        _, ends, data = array.buffers()
        if not len(array):
            return cls(b"", np.zeros(1, np.int64))
        numbers = np.frombuffer(ends, np.int64 if wide else np.int32)
        offsets = numbers[array.offset : array.offset + len(array) + 1]
        return cls(b"" if data is None else data, offsets.astype(np.int64, copy=False))

    def to_arrow(self) -> Any:
        """Arrow array of large strings that shares the bytes."""
        import pyarrow as pa

        offsets = pa.py_buffer(np.ascontiguousarray(self.offsets))
        return pa.LargeStringArray.from_buffers(len(self), offsets, pa.py_buffer(self.data))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            if self._values is not None:
                return list(self._values[index])
            start, stop, step = index.indices(len(self))
            if step == 1:
                return self._read(start, max(start, stop))
            return [self[i] for i in range(start, stop, step)]
        if self._values is not None:
            return self._values[index]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        if len(self) <= ROWS_PER_BLOCK:
            return self.values[index]
        row = index % len(self)
        return str(self.data[self.offsets[row] : self.offsets[row + 1]], "utf-8")

    def __iter__(self) -> Iterator[str]:
        if self._values is not None:
            yield from self._values
            return
        for start in range(0, len(self), ROWS_PER_BLOCK):
            yield from self._read(start, min(start + ROWS_PER_BLOCK, len(self)))

    def _read(self, start: int, stop: int) -> list[str]:
        ends = self.offsets[start : stop + 1]
        first = int(ends[0])
        if len(ends) > TEXTS_TO_SPLIT and (joined := self._join_lines(start, stop)) is not None:
            return str(joined, "utf-8").split("\n")
        text = str(self.data[first : int(ends[-1])], "utf-8")
        if len(text) == int(ends[-1]) - first:  # a character is a byte
            return [text[a:b] for a, b in pairwise((ends - first).tolist())]
        return [str(self.data[a:b], "utf-8") for a, b in pairwise(ends.tolist())]

    def _join_lines(self, start: int, stop: int) -> Any:
        """Bytes of texts with line breaks between them; None where a text holds one."""
        import pyarrow as pa
        import pyarrow.compute as pc

        ends = self.offsets[start : stop + 1]
        size = int(ends[-1] - ends[0])
        letters = np.frombuffer(self.data, np.uint8)[int(ends[0]) : int(ends[-1])]
        if size + len(ends) >= 1 << 31 or (letters == ord("\n")).any():
            return None
        texts = self.to_arrow().slice(start, stop - start).cast(pa.string())
        # Of arrays alone: Arrow imports pandas to look at a list or a text.
        ends = pa.py_buffer(np.array([0, len(texts)], np.int32))
        rows = pa.ListArray.from_arrays(pa.Array.from_buffers(pa.int32(), 2, [None, ends]), texts)
        breaks = TextColumn.of(["\n"]).to_arrow().cast(pa.string())
        return pc.binary_join(rows, breaks).buffers()[2]

    @property
    def values(self) -> tuple[str, ...]:
        """All texts, as one tuple that is built once."""
        if self._values is None:
            self._values = tuple(self._read(0, len(self)))
        return self._values

    @property
    def ids(self) -> ContentIds:
        """Content ids of the texts; many are computed in the background from now on."""
        if self._ids is None:
            self._ids = start_hashes(self)
        return self._ids

    @property
    def sizes(self) -> Positions:
        """Number of bytes of each text."""
        return np.diff(self.offsets)

    def are_distinct(self) -> bool:
        """Whether no two texts are equal."""
        if int(self.sizes.max(initial=0)) <= LONGEST_KEYED:
            keys = np.sort(hash_texts(self.data, self.offsets))
            if (keys[1:] != keys[:-1]).all():  # no equal texts have different keys
                return True
        return len(self.to_arrow().unique()) == len(self)

    def take(self, positions: Positions) -> TextColumn:
        """Select texts in this order."""
        taken = TextColumn.from_arrow(self.to_arrow().take(arrow_positions(positions)))
        if self._ids is not None:
            taken._ids = self._ids.take(positions)
        return taken

    def find_distinct(self) -> tuple[TextColumn, Positions]:
        """Distinct texts in order of first appearance, and which of them each text is.

        Texts are compared by their ids, as the store compares them.
        """
        first, index = self.ids.find_distinct()
        return self if first is None else self.take(first), index


class TextRows(Sequence[tuple[str, ...]]):
    """Sequence of tuples of texts, of which each is built when it is read.

    Attributes:
        texts: all texts, end to end.
        starts: (k + 1,) where each tuple begins, and the end of the last.
    """

    def __init__(self, texts: TextColumn, starts: Positions):
        self.texts, self.starts = texts, starts

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, index: int) -> tuple[str, ...]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[str, ...]]: ...

    def __getitem__(self, index: int | slice) -> tuple[str, ...] | list[tuple[str, ...]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        row = index % len(self)
        return tuple(self.texts[int(self.starts[row]) : int(self.starts[row + 1])])

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        for start in range(0, len(self), ROWS_PER_BLOCK):
            begins = self.starts[start : start + ROWS_PER_BLOCK + 1]
            first = int(begins[0])
            texts = self.texts[first : int(begins[-1])]
            for a, b in pairwise((begins - first).tolist()):
                yield tuple(texts[a:b])


def start_hashes(texts: TextColumn) -> ContentIds:
    """Compute the content ids of texts; many in processes of their own, which need no waiting."""
    workers = count_workers(len(texts), TEXTS_FOR_WORKERS)
    if not workers:
        return ContentIds(_to_words(_hash_span(texts, 0, len(texts))))
    rows = ForkedRows(partial(_hash_span, texts), len(texts), ID_BYTES, workers)
    return ContentIds(lambda: _to_words(rows.wait()), len(texts))


def _hash_span(texts: TextColumn, start: int, stop: int) -> bytes:
    blake2b, data = hashlib.blake2b, texts.data
    parts = []
    for first in range(start, stop, ROWS_PER_BLOCK):
        ends = texts.offsets[first : min(first + ROWS_PER_BLOCK, stop) + 1].tolist()
        digests = [blake2b(data[a:b], digest_size=ID_BYTES).digest() for a, b in pairwise(ends)]
        parts.append(b"".join(digests))
    return b"".join(parts)


def _to_words(digests: Any) -> IdWords:
    return np.frombuffer(digests, np.uint64).reshape(-1, 2)
