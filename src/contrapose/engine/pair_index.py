"""Index of the (image, caption) pairs of a table: sorted 64-bit keys over packed ids.

An id is held in 128 bits: a content id is the number that its 32 digits write, any other id is
hashed. A pair's key is a multiply-add hash of both; the seed is changed until no two different
pairs of a table share a key, and every hit is compared in full, so that a key never stands for
another pair. Ids, keys and rows take 48 bytes for each pair of a table.
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

from contrapose.metrics import IntArray

IdWords = NDArray[np.uint64]
"""(n, 2) ids of 128 bits."""

ID_DIGITS = 32
"""Digits of a content id."""

CONTENT_ID = re.compile(f"[0-9a-f]{{{ID_DIGITS}}}")

PAIRS_PER_LOOKUP = 1 << 22
"""Pairs that are looked up at a time, in bounded memory."""


@dataclass(frozen=True, slots=True, eq=False)
class PairIndex:
    """Sorted hash index over the (image, caption) id pairs of a table.

    Attributes:
        images: image ids, row by row.
        texts: caption ids, row by row.
        seed: of the hash's multipliers.
        keys: the pairs' hashes, sorted.
        rows: the rows of the hashes; of equal pairs the newest is the last.
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
            keys = _hash_ids(image, seed, 0)
            keys += _hash_ids(text, seed, 1)
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
        image_keys, text_keys = _hash_ids(image, self.seed, 0), _hash_ids(text, self.seed, 1)
        result = np.full(len(pairs), -1, dtype=np.int64)
        if not len(self.keys):
            return result
        for start in range(0, len(pairs), PAIRS_PER_LOOKUP):
            i, j = pairs[start : start + PAIRS_PER_LOOKUP].T
            wanted = image_keys[i] + text_keys[j]
            last = np.searchsorted(self.keys, wanted, side="right") - 1
            hit = np.flatnonzero((last >= 0) & (self.keys[last] == wanted))
            rows = self.rows[last[hit]]
            equal = (self.images[rows] == image[i[hit]]).all(axis=1)
            equal &= (self.texts[rows] == text[j[hit]]).all(axis=1)
            result[start + hit[equal]] = rows[equal]
        return result


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
