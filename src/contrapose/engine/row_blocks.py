"""Blocks of rows of an answer table in memory: packed ids, numbers, and an index over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose.arrays import Ragged
from contrapose.data.text_columns import IdWords
from contrapose.engine.pair_index import PairFilter, PairIds, PairIndex
from contrapose.metrics import FloatArray, IntArray

BLOCK_ROWS, BLOCK_BYTES = 1 << 24, 1 << 30
"""Rows and bytes of a block up to which parts are joined."""

PAIRS_PER_FIND = 1 << 24
"""Pairs that are looked up in all blocks at a time, in bounded memory."""


@dataclass(slots=True, eq=False)
class Block:
    """Rows of an answer table in memory, in the order of their numbers.

    Attributes:
        ids: ids of images and captions, row by row.
        columns: numbers and texts by name; lists and vectors are read on demand.
        start: number of the first row in the table.
        numbers: the rows' numbers in the table; None where they follow one another.
        index: of the pairs; None until one is looked up.
    """

    ids: PairIds
    columns: Mapping[str, FloatArray]
    start: int
    numbers: NDArray[np.uint32] | None = None
    index: PairIndex | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without the index."""
        return self.ids.nbytes + sum(column.nbytes for column in self.columns.values())

    def find(self, images: IdWords, texts: IdWords, pairs: IntArray) -> IntArray:
        """Return the number of the newest row of each pair; −1 where the block has none."""
        if self.index is None:
            self.index = PairIndex.of(self.ids)
        rows = self.index.find(images, texts, pairs)
        known = rows >= 0
        if self.numbers is None:
            np.add(rows, self.start, out=rows, where=known)
        else:
            rows[known] = self.numbers[rows[known]]
        return rows

    def locate(self, numbers: IntArray) -> tuple[IntArray, IntArray]:
        """Return which of some row numbers the block holds, and their positions in it."""
        if not len(self):
            return numbers[:0], numbers[:0]
        if self.numbers is None:
            inside = np.flatnonzero((numbers >= self.start) & (numbers < self.start + len(self)))
            return inside, numbers[inside] - self.start
        at = np.minimum(np.searchsorted(self.numbers, numbers), len(self) - 1)
        inside = np.flatnonzero(self.numbers[at] == numbers)
        return inside, at[inside]

    def select(self, wanted: PairFilter) -> Block:
        """Keep the rows of a filter alone."""
        kept = wanted.select(self.ids)
        columns = {name: column[kept] for name, column in self.columns.items()}
        return Block(self.ids.select(kept), columns, self.start, self._numbers()[kept])

    def _numbers(self) -> NDArray[np.uint32]:
        if self.numbers is not None:
            return self.numbers
        return np.arange(self.start, self.start + len(self), dtype=np.uint32)


def join_blocks(blocks: list[Block]) -> Block:
    """Join blocks in the order of their rows, and empty the list.

    Joined columns replace theirs one by one, so that no copy of all is made.
    """
    start = blocks[0].start
    ends = [block.start + len(block) for block in blocks]
    numbers = None
    if any(block.numbers is not None for block in blocks) or ends[:-1] != [
        block.start for block in blocks[1:]
    ]:
        numbers = np.concatenate([block._numbers() for block in blocks])
    ids = [block.ids for block in blocks]
    columns = {name: [block.columns[name] for block in blocks] for name in blocks[0].columns}
    blocks.clear()
    joined = PairIds.concatenate(ids)
    ids.clear()
    result = Block(joined, {name: _join_column(some) for name, some in columns.items()}, start)
    if numbers is None:
        return result
    if (numbers[1:] < numbers[:-1]).any():
        order = np.argsort(numbers, kind="stable")
        result.ids = PairIds(joined.images, joined.codes[order], joined.texts[order])
        result.columns = {name: column[order] for name, column in result.columns.items()}
        numbers = numbers[order]
    result.numbers = numbers
    return result


def _join_column(blocks: list[Any]) -> Any:
    blocks[:] = [block for block in blocks if len(block)] or blocks[:1]
    joined = np.concatenate(blocks)
    blocks.clear()
    return joined


@dataclass(slots=True, eq=False)
class HeldRows:
    """Rows of a table that are held in memory, in few blocks.

    Attributes:
        blocks: blocks of rows.
        parts: rows that are to be joined to them.
    """

    blocks: list[Block] = field(default_factory=list)
    parts: list[Block] = field(default_factory=list)
    _rows: int = 0  # of the parts
    _bytes: int = 0

    def append(self, block: Block) -> None:
        """Append rows; parts are joined when they fill a block."""
        if not len(block):
            return
        self.parts.append(block)
        self._rows, self._bytes = self._rows + len(block), self._bytes + block.nbytes
        if self._rows >= BLOCK_ROWS or self._bytes >= BLOCK_BYTES:
            self.blocks.append(join_blocks(self.parts))
            self._rows = self._bytes = 0

    def join(self) -> list[Block]:
        """Return all rows as few blocks."""
        if self.parts:  # not at every part that is added, which would copy all each time
            last = self.blocks[-1] if self.blocks else None
            rows = self._rows + (len(last) if last else 0)
            size = self._bytes + (last.nbytes if last else 0)
            if last is not None and rows < BLOCK_ROWS and size < BLOCK_BYTES:
                self.parts.insert(0, self.blocks.pop())
            last = None
            self.blocks.append(
                self.parts.pop() if len(self.parts) == 1 else join_blocks(self.parts)
            )
            self._rows = self._bytes = 0
        return self.blocks

    def find(self, images: IdWords, texts: IdWords, pairs: IntArray) -> IntArray:
        """Return the number of the newest row of each pair; −1 where none is held."""
        result = np.full(len(pairs), -1, dtype=np.int64)
        for start in range(0, len(pairs), PAIRS_PER_FIND):
            some = pairs[start : start + PAIRS_PER_FIND]
            left = np.arange(len(some))  # those that no newer block holds
            for block in reversed(self.join()):
                if not len(left):
                    break
                rows = block.find(images, texts, some if len(left) == len(some) else some[left])
                result[start + left[rows >= 0]] = rows[rows >= 0]
                left = left[rows < 0]
        return result

    def values(self, numbers: IntArray, column: str) -> FloatArray:
        """Return a column's values in rows by their numbers; NaN where none is held."""
        blocks = self.join()
        if not blocks:
            return np.full(len(numbers), np.nan)
        values = np.full(len(numbers), np.nan, dtype=blocks[0].columns[column].dtype)
        for block in blocks:
            inside, at = block.locate(numbers)
            values[inside] = block.columns[column][at]
        return values

    def select(self, wanted: PairFilter) -> None:
        """Keep the rows of a filter alone."""
        kept = [block.select(wanted) for block in (*self.blocks, *self.parts)]
        self.blocks, self.parts, self._rows, self._bytes = [], [], 0, 0
        for block in kept:
            self.append(block)


def stack_columns(
    parts: Sequence[Mapping[str, FloatArray | Ragged]],
) -> dict[str, FloatArray | Ragged]:
    """Concatenate columns row-wise, numeric and ragged."""
    stacked: dict[str, FloatArray | Ragged] = {}
    for name in parts[0]:
        columns = [part[name] for part in parts]
        ragged = [column for column in columns if isinstance(column, Ragged)]
        plain = [column for column in columns if not isinstance(column, Ragged)]
        stacked[name] = Ragged.concatenate(ragged) if ragged else np.concatenate(plain)
    return stacked
