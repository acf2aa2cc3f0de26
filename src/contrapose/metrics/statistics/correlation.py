"""Pearson's correlation and the fitted line: statistics of column totals, which are resampled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.statistics.bootstrap import joint_replicates
from contrapose.metrics.statistics.shares import FEWEST_UNITS
from contrapose.metrics.statistics.statistic import Statistic, divide
from contrapose.metrics.types import FloatArray, IntArray, require_finite

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
    columns = (np.stack([a, b, a * a, b * b, a * b, np.ones_like(a)]) * share).T

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


@dataclass(frozen=True, slots=True, eq=False)
class LineFit:
    """Least-squares line with its 95 % band.

    Attributes:
        slope: of the line.
        intercept: its height at x = 0.
        x: (g,) points across at which the band is given.
        low: (g,) lower end of the band there; None with too few units to resample.
        high: (g,) upper end; None with too few units.
    """

    slope: float
    intercept: float
    x: FloatArray
    low: FloatArray | None
    high: FloatArray | None


def fit_line(
    x: ArrayLike,
    y: ArrayLike,
    *,
    points: ArrayLike,
    clusters: IntArray,
    resamples: int,
    seed: int = 0,
) -> LineFit | None:
    """Fit y = intercept + slope · x by least squares; None where x does not vary.

    The band holds the lines of 95 % of the resamples at each point across (percentiles).

    Args:
        x: (k,) one value an example.
        y: (k,) the other value.
        points: (g,) points across at which the band is wanted.
        clusters: (k,) codes; examples with one code are drawn together.
        resamples: number of bootstrap resamples.
        seed: seed of the bootstrap.
    """
    first, second = require_finite(x, "values"), require_finite(y, "values")
    ones = np.ones(first.shape)
    a, b = _standardize(first, ones), _standardize(second, ones)
    if not a.any():
        return None
    columns = np.stack([a, b, a * a, a * b, ones], axis=1)

    def slopes(totals: FloatArray) -> FloatArray:
        mean_a, mean_b, square, product = divide(totals[:, :4], totals[:, 4:]).T
        return np.asarray((product - mean_a * mean_b) / _variance(square, mean_a))

    def heights(totals: FloatArray) -> FloatArray:
        mean_a, mean_b = divide(totals[:, :2], totals[:, 4:]).T
        return np.asarray(mean_b - slopes(totals) * mean_a)

    at = np.asarray(points, dtype=np.float64)
    wide, tall = float(first.std()), float(second.std())
    statistics = [Statistic(columns, slopes), Statistic(columns, heights)]
    slope, height = (statistic.value() for statistic in statistics)
    tilt = slope * tall / wide
    low = high = None
    if np.unique(clusters).size >= FEWEST_UNITS:
        drawn = joint_replicates(statistics, clusters=clusters, resamples=resamples, seed=seed)
        lines = drawn[1][:, None] + drawn[0][:, None] * ((at - first.mean()) / wide)
        low, high = second.mean() + tall * np.nanquantile(lines, (0.025, 0.975), axis=0)
    return LineFit(tilt, float(second.mean() + tall * height - tilt * first.mean()), at, low, high)
