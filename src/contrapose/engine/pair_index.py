"""Index of the (image, caption) pairs of a block of rows: sorted 64-bit keys over packed ids.

An id is held in 128 bits: a content id is the number that its 32 digits write, any other id is
hashed. A pair's key is a multiply-add hash of both; the seed is changed until no two different
pairs of a block share a key, and every hit is compared in full, so that a key never stands for
another pair. Images, of which a block has few, are numbered: ids, keys and rows take 32 bytes for
each pair, and 16 for each distinct image.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose.arrays import find_distinct
from contrapose.metrics import IntArray

IdWords = NDArray[np.uint64]
"""(n, 2) ids of 128 bits."""

ID_DIGITS = 32
"""Digits of a content id."""

CONTENT_ID = re.compile(f"[0-9a-f]{{{ID_DIGITS}}}")

PAIRS_PER_LOOKUP = 1 << 22
"""Pairs that are looked up at a time, in bounded memory."""


@dataclass(frozen=True, slots=True, eq=False)
class PairIds:
    """Ids of the (image, caption) pairs of some rows.

    Attributes:
        images: distinct image ids.
        codes: (n,) position of each row's image in them.
        texts: (n, 2) caption ids, row by row.
    """

    images: IdWords
    codes: NDArray[np.int32]
    texts: IdWords

    def __len__(self) -> int:
        return len(self.texts)

    @classmethod
    def of(cls, images: Sequence[str], texts: Sequence[str]) -> PairIds:
        """Pack the ids of pairs."""
        distinct, codes = find_distinct(images)
        return cls(pack_ids(distinct), codes.astype(np.int32), pack_ids(texts))

    @classmethod
    def take(cls, images: Sequence[str], texts: Sequence[str], pairs: IntArray) -> PairIds:
        """Pack ids, and take (p, 2) pairs of positions in them."""
        return cls(pack_ids(images), pairs[:, 0].astype(np.int32), pack_ids(texts)[pairs[:, 1]])

    @classmethod
    def concatenate(cls, parts: Sequence[PairIds]) -> PairIds:
        """Concatenate row-wise."""
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(len(part.images) for part in parts)])
        return cls(
            np.concatenate([part.images for part in parts]),
            np.concatenate(
                [part.codes + np.int32(start) for part, start in zip(parts, starts, strict=False)]
            ),
            np.concatenate([part.texts for part in parts]),
        )

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.images.nbytes + self.codes.nbytes + self.texts.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class PairIndex:
    """Sorted hash index over the (image, caption) id pairs of a block of rows.

    Attributes:
        ids: the ids, row by row.
        seed: of the hash's multipliers.
        keys: the pairs' hashes, sorted.
        rows: the rows of the hashes; of equal pairs the newest is the last.
    """

    ids: PairIds
    seed: int
    keys: IdWords
    rows: NDArray[np.uint32]

    @classmethod
    def of(cls, ids: PairIds) -> PairIndex:
        """Build the index of a block's ids, row by row."""
        for seed in count():
            keys = _hash_ids(ids.images, seed, 0)[ids.codes]
            keys += _hash_ids(ids.texts, seed, 1)
            order = np.argsort(keys)
            ordered = keys[order]
            twins = np.flatnonzero(ordered[1:] == ordered[:-1])
            if len(twins):
                order = np.argsort(keys, kind="stable")
            a, b = order[twins], order[twins + 1]
            same = (ids.images[ids.codes[a]] == ids.images[ids.codes[b]]).all()
            if same and (ids.texts[a] == ids.texts[b]).all():
                break
        return cls(ids, seed, ordered, order.astype(np.uint32))

    def find(self, images: IdWords, texts: IdWords, pairs: IntArray) -> IntArray:
        """Return the newest row of each pair of packed ids; −1 where it has none.

        Args:
            images: ids of images.
            texts: ids of captions.
            pairs: (p, 2) positions in them.
        """
        result = np.full(len(pairs), -1, dtype=np.int64)
        if not len(self.keys):
            return result
        image_keys, text_keys = _hash_ids(images, self.seed, 0), _hash_ids(texts, self.seed, 1)
        for start in range(0, len(pairs), PAIRS_PER_LOOKUP):
            i, j = pairs[start : start + PAIRS_PER_LOOKUP].T
            wanted = image_keys[i] + text_keys[j]
            order = np.argsort(wanted)  # far fewer cache misses than in the order of the pairs
            wanted = wanted[order]
            last = np.searchsorted(self.keys, wanted, side="right") - 1
            hit = np.flatnonzero((last >= 0) & (self.keys[last] == wanted))
            rows, at = self.rows[last[hit]], order[hit]
            equal = _equal_rows(self.ids.images, self.ids.codes[rows], images, i[at])
            equal &= _equal_rows(self.ids.texts, rows, texts, j[at])
            result[start + at[equal]] = rows[equal]
        return result


def _equal_rows(one: IdWords, rows: Any, other: IdWords, others: IntArray) -> Any:
    """Whether rows of two arrays of ids are equal."""
    return (one[rows, 0] == other[others, 0]) & (one[rows, 1] == other[others, 1])


def pack_ids(ids: Sequence[str] | Any) -> IdWords:
    """Pack ids, a sequence of strings or an Arrow large-string column, into 128 bits each."""
    digits = _content_digits(ids) if isinstance(ids, Sequence) else _arrow_content_digits(ids)
    packed = b""
    try:
        packed = bytes.fromhex(digits)
    except ValueError:
        digits = ""
    if not digits or packed.hex() != digits:  # some are no content ids
        names = ids if isinstance(ids, Sequence) else ids.to_pylist()
        packed_name = {name: _pack_id(name) for name in set(names)}
        packed = b"".join(map(packed_name.__getitem__, names))
    return np.frombuffer(packed, np.uint64).reshape(-1, 2)


def _pack_id(name: str) -> bytes:
    if CONTENT_ID.fullmatch(name):
        return bytes.fromhex(name)
    return hashlib.blake2b(name.encode(), digest_size=ID_DIGITS // 2, person=b"id").digest()


def _content_digits(ids: Sequence[str]) -> str:
    """Join ids that may all be content ids; empty where one has another length."""
    return "".join(ids) if set(map(len, ids)) == {ID_DIGITS} else ""


def _arrow_content_digits(column: Any) -> str:
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    if not len(column) or (np.diff(ends) != ID_DIGITS).any():
        return ""
    return str(memoryview(data)[ends[0] : ends[-1]], "utf-8")


def _hash_ids(words: IdWords, seed: int, which: int) -> IdWords:
    """Hash packed ids to (n,) 64-bit keys."""
    draw = np.random.default_rng((seed, which))
    keys = np.zeros(len(words), dtype=np.uint64)
    for column in words.T:
        keys += column * np.uint64(2 * int(draw.integers(2**62)) + 1)
    return keys
