"""Hard positives: does a model keep its choice when the wording changes but the meaning does not?

Each example is one image with the original caption c, a hard negative n and a hard positive p, a
rewording of c that keeps its meaning; its scores are (k, 3) in the order c, n, p.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from contrapose.metrics.outcome import Outcome, decided, measured
from contrapose.metrics.types import FloatArray, of_shape, wide


def original(scores: ArrayLike) -> Outcome:
    """`s(c) > s(n)`: the accuracy without hard positives. Chance 1/2."""
    c, n, _ = _columns(scores)
    return decided(c > n, c == n, 1 / 2)


def augmented(scores: ArrayLike) -> Outcome:
    """`s(c) > s(n)` and `s(p) > s(n)`. Chance 1/3: n is the lowest of three."""
    c, n, p = _columns(scores)
    return decided((c > n) & (p > n), (c == n) | (p == n), 1 / 3)


def brittle(scores: ArrayLike) -> Outcome:
    """`s(c) > s(n) > s(p)` or `s(p) > s(n) > s(c)`: the wording decides. Chance 1/3."""
    c, n, p = _columns(scores)
    between = ((c > n) & (n > p)) | ((p > n) & (n > c))
    return decided(between, (c == n) | (p == n), 1 / 3)


def mean_score(scores: ArrayLike) -> Outcome:
    """`s(c)` itself, to see whether tuning lowered what right captions get."""
    c, _, _ = _columns(scores)
    return measured(c)


def _columns(scores: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    array = of_shape(wide(scores), (None, 3), "scores of hard positives")
    c, n, p = np.moveaxis(array, 1, 0)
    return c, n, p
