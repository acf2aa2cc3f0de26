"""Significance tests of two runs: McNemar's test, the paired bootstrap, Holm's correction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.statistics.bootstrap import RESAMPLES, percentile_interval, replicates
from contrapose.metrics.statistics.shares import FEWEST_UNITS, NO_INTERVAL, count_statistic_units
from contrapose.metrics.statistics.statistic import Statistic, join
from contrapose.metrics.types import FloatArray, IntArray


def holm(p_values: ArrayLike) -> FloatArray:
    """Holm-adjusted p-values: rejecting those ≤ α keeps the family-wise error rate below α.

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


@dataclass(frozen=True, slots=True)
class McNemar:
    """McNemar's test on two runs' 0/1 outcomes.

    Attributes:
        b_only: examples that only b has right.
        a_only: examples that only a has right.
        p: two-sided p-value of `b_only` and `a_only` being equally likely.
    """

    b_only: int
    a_only: int
    p: float


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Paired difference of a statistic, b less a.

    Attributes:
        difference: statistic of b less that of a.
        ci95: its percentile interval.
        p: two-sided bootstrap p-value of no difference.
    """

    difference: float
    ci95: tuple[float, float]
    p: float


def mcnemar(a: ArrayLike, b: ArrayLike, method: Literal["exact", "midp"] = "exact") -> McNemar:
    """McNemar's test of whether two runs differ in how many examples they have right.

    Only the examples on which they disagree speak. Under the null hypothesis each of those n is as
    likely to be b's as a's: X ~ Binomial(n, ½).

    Args:
        a: (k,) outcomes of the first run, 0 or 1.
        b: (k,) outcomes of the second on the same examples.
        method: "exact" gives 2·P(X ≤ min), never more than its level; "midp" counts the observed
            value half, 2·P(X < min) + P(X = min), and is less conservative.

    Raises:
        InputError: the outcomes are not 0/1 or not as many.
    """
    if method not in ("exact", "midp"):
        raise InputError(f"method must be 'exact' or 'midp', not {method!r}.")
    first, second = _check_binary(a), _check_binary(b)
    if first.shape != second.shape:
        raise InputError(f"{first.size} outcomes against {second.size}: not the same examples.")
    b_only = int(np.count_nonzero(second > first))
    a_only = int(np.count_nonzero(first > second))
    least, n = min(b_only, a_only), b_only + a_only
    at, at_most = _binomial_tail(least, n)
    p = 2 * at_most - (at if method == "midp" else 0.0)
    return McNemar(b_only, a_only, min(1.0, p))


def paired_bootstrap(
    statistic_a: Statistic,
    statistic_b: Statistic,
    clusters: IntArray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> PairedDifference:
    """Paired bootstrap of a statistic of two runs, with the same resamples for both.

    p = 2·min(P(d* ≤ 0), P(d* ≥ 0)), at most 1, where each probability counts the observed sample
    as one more resample, so that p is never 0. With fewer than `FEWEST_UNITS` clusters (or
    independent examples) there is no interval, (NaN, NaN), and p is 1.

    Args:
        statistic_a: the statistic of the first run.
        statistic_b: the statistic of the second, on the same examples in the same order.
        clusters: (k,) codes ≥ 0; examples with one code are drawn together.
        resamples: as in `bootstrap.replicates`.
        seed: as in `bootstrap.replicates`.
    """
    joint = join([statistic_a, statistic_b])

    def difference(totals: FloatArray) -> FloatArray:
        value_a, value_b = joint.values(totals)
        return np.asarray(value_b - value_a)

    statistic = Statistic(joint.columns, difference, joint.kinds)
    if count_statistic_units(statistic, clusters)[1] < FEWEST_UNITS:
        return PairedDifference(statistic.value(), NO_INTERVAL, 1.0)
    drawn = replicates(statistic, clusters=clusters, resamples=resamples, seed=seed)
    return judge_replicates(statistic.value(), drawn)


POWER = 0.8
"""Chance that a test of the needed size finds the effect."""


def standard_error(values: ArrayLike, clusters: IntArray | None = None) -> float:
    """Standard error of a mean, over clusters of values that belong together; NaN for one cluster.

    The sum of a cluster's deviations from the mean counts as one draw (linearization).
    """
    array = np.asarray(values, dtype=np.float64)
    deviations = array - array.mean()
    if clusters is not None:
        codes = np.unique(clusters, return_inverse=True)[1]
        deviations = np.bincount(codes, weights=deviations)
    units = deviations.size
    if units < 2:
        return math.nan
    return float(np.sqrt(units / (units - 1) * (deviations**2).sum()) / array.size)


def count_needed(effect: float, error: float, n: int, *, level: float = 0.05) -> int | None:
    """Values that would show an effect of this size, with `POWER`; None where no number would.

    n · ((z_{1 − level/2} + z_POWER) · error / |effect|)², for a two-sided normal test.

    Args:
        effect: the mean that was seen.
        error: its standard error with n values.
        n: number of values.
        level: significance level.
    """
    if not effect or not math.isfinite(error):
        return None
    normal = NormalDist()
    z = normal.inv_cdf(1 - level / 2) + normal.inv_cdf(POWER)
    return max(1, math.ceil(n * (z * error / effect) ** 2))


def judge_replicates(difference: float, drawn: FloatArray) -> PairedDifference:
    """Interval and p-value of a difference by its bootstrap replicates, as `paired_bootstrap`."""
    known = drawn[~np.isnan(drawn)]
    if not known.size:
        return PairedDifference(difference, NO_INTERVAL, 1.0)
    tails = [1 + int(np.count_nonzero(known <= 0)), 1 + int(np.count_nonzero(known >= 0))]
    p = min(1.0, 2 * min(tails) / (known.size + 1))
    return PairedDifference(difference, percentile_interval(drawn), p)


def _check_binary(outcomes: ArrayLike) -> FloatArray:
    array = np.asarray(outcomes, dtype=np.float64)
    if array.ndim != 1 or not ((array == 0) | (array == 1)).all():
        raise InputError("McNemar's test needs outcomes of 0 and 1; use the paired bootstrap.")
    return array


def _binomial_tail(x: int, n: int) -> tuple[float, float]:
    """P(X = x) and P(X ≤ x) for X ~ Binomial(n, ½) and x ≤ n/2.

    The sum runs down from x: P(X = j − 1) = P(X = j)·j/(n − j + 1), each factor below 1, so that
    nothing overflows and what underflows does not matter.
    """
    log_at = math.lgamma(n + 1) - math.lgamma(x + 1) - math.lgamma(n - x + 1) - n * math.log(2)
    at = math.exp(log_at)
    j = np.arange(x, 0, -1, dtype=np.float64)
    return at, at * (1.0 + float(np.cumprod(j / (n - j + 1)).sum()))
