"""Each value once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np

from contrapose.metrics import IntArray

T = TypeVar("T", bound=Hashable)


def distinct(values: Sequence[T]) -> tuple[list[T], IntArray]:
    """The distinct values in order of first appearance, and for each given one its position.

    The same object is looked at once: to compare objects is far cheaper than what they hold.
    """
    by_object = {id(value): value for value in values}
    position: dict[T, int] = {}
    of_object = {key: position.setdefault(value, len(position)) for key, value in by_object.items()}
    at = np.fromiter(map(of_object.__getitem__, map(id, values)), np.int64, len(values))
    return list(position), at
