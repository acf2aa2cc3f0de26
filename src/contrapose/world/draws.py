"""Fast random choices from a NumPy generator: buffered uniforms and cumulative weights."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

import numpy as np

T = TypeVar("T")
CumulativeWeights = tuple[float, ...]

_BLOCK = 48


def cumulative_weights(weights: Sequence[float]) -> CumulativeWeights:
    """Normalized cumulative weights, as `Draws.pick` takes them."""
    total = sum(weights)
    return tuple(value / total for value in accumulate(weights))


class Draws:
    """Single random choices from buffered uniforms, much faster than a generator call each."""

    __slots__ = ("_left", "_rng")

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._left: list[float] = []

    def uniform(self) -> float:
        """A uniform number in [0, 1)."""
        if not self._left:
            self._left = self._rng.random(_BLOCK).tolist()
        return self._left.pop()

    def below(self, count: int) -> int:
        """A uniform integer from 0 to count - 1."""
        return int(self.uniform() * count)

    def pick(self, table: CumulativeWeights) -> int:
        """An index, in proportion to the weights behind a table of cumulative weights."""
        return min(bisect_right(table, self.uniform()), len(table) - 1)

    def one_of(self, values: Sequence[T]) -> T:
        """One of the values, uniformly."""
        return values[int(self.uniform() * len(values))]

    def shuffle(self, values: Sequence[T]) -> list[T]:
        """The values in random order."""
        result = list(values)
        for i in range(len(result) - 1, 0, -1):
            j = int(self.uniform() * (i + 1))
            result[i], result[j] = result[j], result[i]
        return result

    def by_weight(self, values: Sequence[T], weights: Sequence[float]) -> list[T]:
        """The values in weighted random order, without those of weight zero."""
        keyed = [
            (self.uniform() ** (1 / weight), i) for i, weight in enumerate(weights) if weight > 0
        ]
        return [values[i] for _, i in sorted(keyed, reverse=True)]
