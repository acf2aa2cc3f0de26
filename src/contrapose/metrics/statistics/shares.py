"""Intervals where a bootstrap has too little to resample: shares near 0 and 1, and few units.

A share of which fewer than `FEWEST_OF_A_KIND` units hold a hit, or a miss, gets the Clopper–Pearson
interval (The use of confidence or fiducial limits, 1934) of the effective number of units. That
number is Kish's (Σw)² / Σw² of the units' weights (Survey Sampling, 1965): a cluster counts as if
all its examples agreed, which is never too narrow.

With fewer than `FEWEST_UNITS` units there is no interval at all, except that of a share of
independent examples, which is exact at any number.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from contrapose.errors import InputError
from contrapose.metrics.statistics.resampling import cluster_codes
from contrapose.metrics.statistics.statistic import Statistic
from contrapose.metrics.types import FloatArray, IntArray

FEWEST_UNITS = 10
"""Clusters, or independent examples, below which a bootstrap is no evidence."""

FEWEST_OF_A_KIND = 5
"""Units with a hit, and with a miss, from which on a share is resampled."""

NO_INTERVAL = (float("nan"), float("nan"))

ROUNDING = 1e-12
"""Share of a unit's weight below which its hits or misses are rounding errors."""

HALVINGS = 60
TERMS = 100_000


def exact_interval(
    statistic: Statistic, clusters: IntArray | None = None, level: float = 0.95
) -> tuple[float, float] | None:
    """Interval to give instead of the bootstrap's; None where the bootstrap's holds.

    (NaN, NaN) where there are too few units for any.

    Args:
        statistic: the statistic.
        clusters: (k,) codes ≥ 0; examples with one code are one unit.
        level: of the interval.
    """
    examples, units = count_statistic_units(statistic, clusters)
    if not units or (units < FEWEST_UNITS and (statistic.share is None or units < examples)):
        return NO_INTERVAL
    if statistic.share is None:
        return None
    hits, weights = statistic.share()
    codes, size = cluster_codes(clusters, len(hits))
    if codes is not None:
        hits = np.bincount(codes, hits, minlength=size).astype(np.float64)
        weights = np.bincount(codes, weights, minlength=size).astype(np.float64)
    some = ROUNDING * weights
    kinds = np.count_nonzero(hits > some), np.count_nonzero(weights - hits > some)
    if min(kinds) >= FEWEST_OF_A_KIND:
        return None
    n = effective_units(weights)
    return clopper_pearson(n * statistic.value(), n, level)


def count_statistic_units(statistic: Statistic, clusters: IntArray | None) -> tuple[int, int]:
    """Number of examples that count in a statistic, and of units (clusters) that hold them."""
    used = (statistic.columns != 0).any(axis=1)
    if statistic.kinds is not None:
        used = used[statistic.kinds]
    examples = int(np.count_nonzero(used))
    codes, size = cluster_codes(clusters, len(used))
    if codes is None:
        return examples, examples
    if examples == len(used):
        return examples, size
    return examples, int(np.count_nonzero(np.bincount(codes[used], minlength=size)))


def effective_units(weights: FloatArray) -> float:
    """Kish's effective number (Σw)² / Σw² of units with these weights; 0 without any."""
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


@lru_cache(maxsize=4096)
def clopper_pearson(hits: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Clopper–Pearson interval of a share of `hits` in `n`, which need not be whole numbers.

    Its ends are quantiles of Beta(hits, n − hits + 1) and Beta(hits + 1, n − hits).

    Raises:
        InputError: there are more hits than n, or fewer than none.
    """
    if not -ROUNDING * n <= hits <= n * (1 + ROUNDING):
        raise InputError(f"{hits:g} of {n:g} is not a share.")
    if n <= 0:
        return NO_INTERVAL
    hits = min(max(hits, 0.0), n)
    tail = (1 - level) / 2
    low = _beta_quantile(tail, hits, n - hits + 1) if hits > ROUNDING * n else 0.0
    high = _beta_quantile(1 - tail, hits + 1, n - hits) if n - hits > ROUNDING * n else 1.0
    return low, high


def _beta_quantile(p: float, a: float, b: float) -> float:
    """Quantile of Beta(a, b) by bisection."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _beta_cdf(middle, a, b) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta_cdf(x: float, a: float, b: float) -> float:
    """Regularized incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_cdf(1 - x, b, a)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction


def _away_from_zero(value: float) -> float:
    return value if abs(value) > 1e-300 else 1e-300
