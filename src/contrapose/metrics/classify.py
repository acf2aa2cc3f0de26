"""Zero-shot classification: is the right class among the k best?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.outcome import Outcome, decided
from contrapose.metrics.types import wide

CHUNK = 1 << 22
"""Scores looked at together."""


def top_k(scores: ArrayLike, labels: ArrayLike, k: int = 1) -> Outcome:
    """Fewer than k other classes score as high as the right one: ties are never wins.

    Args:
        scores: (N, C) scores of every image with every class.
        labels: (N,) position of each image's right class.
        k: how many guesses are allowed. Chance k/C.

    Raises:
        InputError: a shape does not fit, a label is not a class, or a score is NaN.
    """
    array, right = np.asarray(scores), np.asarray(labels, dtype=np.int64)
    if array.ndim != 2 or right.shape != array.shape[:1]:
        raise InputError(f"{right.shape} labels do not fit scores of shape {array.shape}.")
    n, classes = array.shape
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}.")
    if n and not (right.min() >= 0 and right.max() < classes):
        raise InputError(f"labels must lie in 0 … {classes - 1}.")
    at_least, above = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    rows = max(1, CHUNK // max(1, classes))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        block = wide(array[part])
        own = np.take_along_axis(block, right[part, None], axis=1)
        at_least[part] = np.count_nonzero(block >= own, axis=1) - 1
        above[part] = np.count_nonzero(block > own, axis=1)
    return decided(
        at_least < k, (above < k) & (at_least >= k), min(1.0, k / classes) if n else None
    )
