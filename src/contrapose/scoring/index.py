"""Pairs of ids as numbers, sorted, so that a million are found without a loop.

The characters of an id are taken as numbers of eight bytes. A pair's number is a sum of products of
them; two pairs on a shelf that had the same one would get others, and what is found is compared
character by character, so that a number can never stand for another pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose.metrics import IntArray

Words = NDArray[np.uint64]
"""(n, w) ids, eight characters a number; shorter ones are filled up with zeros."""


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """The pairs of a shelf.

    Attributes:
        images: their ids, row by row.
        texts: the same of captions.
        seed: of the numbers that ids are multiplied with.
        keys: the pairs' numbers, sorted.
        rows: the rows they stand for; of equals the newest is the last.
    """

    images: Words
    texts: Words
    seed: int
    keys: Words
    rows: IntArray

    @classmethod
    def of(cls, image: Words, text: Words) -> Index:
        """The index of a shelf's ids, row by row."""
        for seed in count():
            keys = _mixed(image, seed, 0) + _mixed(text, seed, 1)
            rows = np.argsort(keys, kind="stable")
            keys = keys[rows]
            twins = np.flatnonzero(keys[1:] == keys[:-1])
            a, b = rows[twins], rows[twins + 1]
            if (image[a] == image[b]).all() and (text[a] == text[b]).all():
                break
        return cls(image, text, seed, keys, rows)

    def find(self, images: Sequence[str], texts: Sequence[str], pairs: IntArray) -> IntArray:
        """For each pair, positions in the ids, its newest row; −1 where it has none."""
        image, text = words_of(images), words_of(texts)
        wanted = _mixed(image, self.seed, 0)[pairs[:, 0]] + _mixed(text, self.seed, 1)[pairs[:, 1]]
        at = np.searchsorted(self.keys, wanted, side="right") - 1
        hit = np.flatnonzero((at >= 0) & (self.keys[at] == wanted))
        rows = self.rows[at[hit]]
        there = _same(self.images, rows, image, pairs[hit, 0])
        there &= _same(self.texts, rows, text, pairs[hit, 1])
        found = np.full(len(pairs), -1, dtype=np.int64)
        found[hit[there]] = rows[there]
        return found


def words_of(ids: Sequence[str] | Any) -> Words:
    """Ids, a sequence of texts or a column of Arrow's large strings, as numbers."""
    letters, lengths = _letters(ids) if isinstance(ids, Sequence) else _column_letters(ids)
    longest = int(lengths.max(initial=0))
    width = -(-longest // 8)
    if longest % 8 == 0 and (lengths == longest).all():
        whole = letters.reshape(len(lengths), longest)
    else:
        whole = np.zeros((len(lengths), 8 * width), dtype=np.uint8)
        whole[np.arange(8 * width) < lengths[:, None]] = letters
    return np.ascontiguousarray(whole).view(np.uint64).reshape(len(lengths), width)


def stacked(parts: Sequence[Words]) -> Words:
    """Ids under each other; narrower ones are filled up."""
    width = max(part.shape[1] for part in parts)
    return np.concatenate(
        [
            part if part.shape[1] == width else np.pad(part, ((0, 0), (0, width - part.shape[1])))
            for part in parts
        ]
    )


def _letters(ids: Sequence[str]) -> tuple[NDArray[np.uint8], IntArray]:
    """All characters in a row, and how many each id has."""
    joined = "".join(ids)
    sizes: Iterable[int] = map(len, ids)
    if not joined.isascii():
        sizes = (len(each.encode()) for each in ids)
    return np.frombuffer(joined.encode(), np.uint8), np.fromiter(sizes, np.int64, len(ids))


def _column_letters(column: Any) -> tuple[NDArray[np.uint8], IntArray]:
    _, places, data = column.buffers()
    ends = np.frombuffer(places, np.int64)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]], np.diff(ends)


def _mixed(words: Words, seed: int, which: int) -> Words:
    """(n,) one number for each id; zeros at its end change nothing."""
    draw = np.random.default_rng((seed, which))
    found = np.zeros(len(words), dtype=np.uint64)
    for column in words.T:
        found += column * np.uint64(2 * int(draw.integers(2**62)) + 1)
    return found


def _same(known: Words, rows: IntArray, wanted: Words, places: IntArray) -> NDArray[np.bool_]:
    """Whether ids are equal, one by one, however far either is filled up."""
    common = min(known.shape[1], wanted.shape[1])
    same = np.ones(len(rows), dtype=np.bool_)
    for i in range(common):
        same &= known[:, i][rows] == wanted[:, i][places]
    if known.shape[1] > common:
        same &= (known[:, common:] == 0).all(axis=1)[rows]
    if wanted.shape[1] > common:
        same &= (wanted[:, common:] == 0).all(axis=1)[places]
    return same
