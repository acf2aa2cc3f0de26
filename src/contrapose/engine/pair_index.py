"""Index of the (image, caption) pairs of a block of rows: sorted 64-bit keys over packed ids.

An id is held in 128 bits: a content id is the number that its 32 digits write, any other id is
hashed. A pair's key is a multiply-xor hash of both; the seed is changed until no two different
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
from contrapose.data.text_columns import ID_BYTES, ContentIds, IdWords
from contrapose.metrics import IntArray

PairQuery = tuple[IdWords, IdWords, IntArray]
"""Packed ids of images and of captions, and (p, 2) positions in them."""

ID_DIGITS = 2 * ID_BYTES
"""Digits of a content id."""

CONTENT_ID = re.compile(f"[0-9a-f]{{{ID_DIGITS}}}")

PAIRS_PER_LOOKUP = 1 << 22
"""Pairs that are looked up at a time, in bounded memory."""

IDS_PER_BLOCK = 1 << 15
"""Ids that are compared at a time."""


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
    def take(
        cls, images: Sequence[str] | IdWords, texts: Sequence[str] | IdWords, pairs: IntArray
    ) -> PairIds:
        """Pack ids, and take (p, 2) pairs of positions in them."""
        return cls(pack_ids(images), pairs[:, 0].astype(np.int32), pack_ids(texts)[pairs[:, 1]])

    def select(self, rows: IntArray) -> PairIds:
        """Select rows, with the images that they use."""
        used, codes = np.unique(self.codes[rows], return_inverse=True)
        return PairIds(self.images[used], codes.astype(np.int32), self.texts[rows])

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

    def hash_pairs(self, ids: PairIds) -> IdWords:
        """Hash the pairs of some rows as those of the index."""
        keys = _hash_ids(ids.images, self.seed, 0)[ids.codes]
        keys += _hash_ids(ids.texts, self.seed, 1)
        return keys

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
            at, rows = self._match(image_keys[i] + text_keys[j], (images, i), (texts, j))
            result[start + at] = rows
        return result

    def find_keys(self, keys: IdWords, ids: PairIds, rows: IntArray) -> IntArray:
        """Return which of some rows of ids, with these keys, the index has, in their order."""
        if not len(self.keys) or not len(rows):
            return rows[:0]
        at, _ = self._match(keys, (ids.images, ids.codes[rows]), (ids.texts, rows))
        return np.sort(rows[at])

    def _match(
        self, keys: IdWords, images: tuple[IdWords, Any], texts: tuple[IdWords, Any]
    ) -> tuple[IntArray, NDArray[np.uint32]]:
        """Return which pairs, by their keys and ids, the index has, and their newest rows."""
        order = np.argsort(keys)  # far fewer cache misses than in the order of the pairs
        keys = keys[order]
        last = np.searchsorted(self.keys, keys, side="right") - 1
        hit = np.flatnonzero((last >= 0) & (self.keys[last] == keys))
        rows, at = self.rows[last[hit]], order[hit]
        equal = _equal_rows(self.ids.images, self.ids.codes[rows], images[0], images[1][at])
        equal &= _equal_rows(self.ids.texts, rows, texts[0], texts[1][at])
        return (at, rows) if equal.all() else (at[equal], rows[equal])


MAX_FILTER_BITS = 27
"""Bits of a key that number the cells of a filter, at the most."""


@dataclass(frozen=True, slots=True, eq=False)
class PairFilter:
    """Filter of rows by their pairs: a table of flags in front of an index of wanted pairs.

    Most rows of a large table are told apart by one look at the flags, without a search.

    Attributes:
        index: of the wanted pairs.
        flags: by the first bits of a key whether a wanted pair has them.
    """

    index: PairIndex
    flags: NDArray[np.bool_]

    @classmethod
    def of(cls, index: PairIndex) -> PairFilter:
        """Build the filter for the pairs of an index."""
        bits = min(MAX_FILTER_BITS, (8 * len(index.keys)).bit_length() + 1)
        flags = np.zeros(1 << bits, dtype=np.bool_)
        flags[_first_bits(index.keys, bits)] = True
        return cls(index, flags)

    def select(self, ids: PairIds) -> IntArray:
        """Return the rows whose pairs are wanted, in order."""
        keys = self.index.hash_pairs(ids)
        bits = len(self.flags).bit_length() - 1
        rows = np.flatnonzero(self.flags.take(_first_bits(keys, bits)))
        return self.index.find_keys(keys[rows], ids, rows)


def _first_bits(keys: IdWords, bits: int) -> IntArray:
    return (keys >> np.uint64(64 - bits)).view(np.int64)


def _equal_rows(one: IdWords, rows: Any, other: IdWords, others: Any) -> NDArray[np.bool_]:
    """Whether rows of two arrays of ids are equal; in blocks that a processor's cache holds."""
    equal: NDArray[np.bool_] = np.empty(len(rows), dtype=np.bool_)
    for start in range(0, len(rows), IDS_PER_BLOCK):
        part = slice(start, start + IDS_PER_BLOCK)
        differ = one.take(rows[part], axis=0)
        differ ^= other.take(others[part], axis=0)
        np.equal(differ[:, 0] | differ[:, 1], 0, out=equal[part])
    return equal


def pack_ids(ids: Sequence[str] | IdWords) -> IdWords:
    """Pack ids into 128 bits each; packed ones stay as they are."""
    if isinstance(ids, np.ndarray):
        return ids
    if isinstance(ids, ContentIds):
        return ids.words
    digits = "".join(ids) if set(map(len, ids)) == {ID_DIGITS} else ""
    packed = b""
    try:
        packed = bytes.fromhex(digits)
    except ValueError:
        digits = ""
    if not digits or packed.hex() != digits:  # some are no content ids
        packed_name = {name: _pack_id(name) for name in set(ids)}
        packed = b"".join(map(packed_name.__getitem__, ids))
    return np.frombuffer(packed, np.uint64).reshape(-1, 2)


def _pack_id(name: str) -> bytes:
    if CONTENT_ID.fullmatch(name):
        return bytes.fromhex(name)
    return hashlib.blake2b(name.encode(), digest_size=ID_BYTES, person=b"id").digest()


def _hash_ids(words: IdWords, seed: int, which: int) -> IdWords:
    """Hash packed ids to (n,) 64-bit keys; ids that differ in a few bits get unlike keys."""
    draw = np.random.default_rng((seed, which))
    keys = np.zeros(len(words), dtype=np.uint64)
    for column in words.T:
        factor = np.uint64(2 * int(draw.integers(2**62)) + 1)
        mixed = column * factor
        mixed ^= mixed >> np.uint64(32)
        mixed *= factor
        keys += mixed
    return keys
