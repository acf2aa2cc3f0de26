"""Pearson's correlation as a statistic of column totals, which the bootstrap can resample."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.statistics.statistic import Statistic, divide
from contrapose.metrics.types import FloatArray, require_finite

NO_SPREAD = 1e-12
"""A variance below this share of the mean square is rounding: the value does not vary."""


def correlation_of(x: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Statistic:
    """Pearson's ρ of x and y over the examples; NaN where either does not vary.

    Args:
        x: (k,) one value an example.
        y: (k,) the other value.
        weights: (k,) how much an example counts; one of weight 0 does not.

    Raises:
        InputError: lengths differ, a value is not finite, or a weight is negative.
    """
    first, second = require_finite(x, "values"), require_finite(y, "values")
    share = np.ones(first.shape) if weights is None else require_finite(weights, "weights")
    if first.ndim != 1 or not first.shape == second.shape == share.shape:
        shapes = f"{first.shape}, {second.shape} and {share.shape}"
        raise InputError(f"a correlation needs as many values and weights, not {shapes}.")
    if (share < 0).any():
        raise InputError("weights must not be negative.")
    a, b = _standardize(first, share), _standardize(second, share)
    columns = np.stack([a, b, a * a, b * b, a * b, np.ones_like(a)], axis=1) * share[:, None]

    def formula(totals: FloatArray) -> FloatArray:
        mean_a, mean_b, square_a, square_b, product = divide(totals[:, :5], totals[:, 5:]).T
        spread_a = _variance(square_a, mean_a)
        spread_b = _variance(square_b, mean_b)
        rho = (product - mean_a * mean_b) / np.sqrt(spread_a * spread_b)
        return np.asarray(np.clip(rho, -1.0, 1.0))

    return Statistic(columns, formula)


def _variance(square: FloatArray, mean: FloatArray) -> FloatArray:
    """Variance; NaN where it is rounding error."""
    variance = square - mean**2
    return np.where(variance > NO_SPREAD * square, variance, np.nan)


def _standardize(values: FloatArray, share: FloatArray) -> FloatArray:
    """Standardize values to mean 0 and deviation 1: sums of raw squares lose digits."""
    total = share.sum()
    if total <= 0:
        return np.zeros_like(values)
    centered = values - (share @ values) / total
    deviation = float(np.sqrt(share @ centered**2 / total))
    scale = float(np.sqrt(share @ values**2 / total))
    if deviation <= np.sqrt(NO_SPREAD) * scale:
        return np.zeros_like(values)
    return np.asarray(centered / deviation)
