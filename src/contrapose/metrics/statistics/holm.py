"""Holm's correction for several tests at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.types import FloatArray


def holm(p_values: ArrayLike) -> FloatArray:
    """Adjusted p-values: rejecting those ≤ α keeps the chance of any false rejection below α.

    The i-th smallest of m is multiplied by m − i + 1, made monotone, and capped at 1 (Holm, A
    simple sequentially rejective multiple test procedure, 1979).

    Raises:
        InputError: a p-value is not between 0 and 1.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise InputError("p-values must be a list of numbers from 0 to 1.")
    order = np.argsort(p)
    steps = p[order] * (len(p) - np.arange(len(p)))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
