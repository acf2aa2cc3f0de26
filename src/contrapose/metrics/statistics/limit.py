"""Normal limit of the bootstrap's totals, for sets so large that drawing every unit is dear.

A resample of n units draws each with probability 1/n, n times. Its column totals then have the mean
T, the totals themselves, and the covariance n·Σ, where Σ is the covariance of what the units add;
as n grows they are normal (Singh, On the asymptotic accuracy of Efron's bootstrap, 1981; van der
Vaart, Asymptotic Statistics, 1998, theorem 23.4). Here totals are drawn from that limit and put
into the statistic's own formula, which is not linearized: O(n c²) once for c columns, and O(c²) for
a resample, instead of O(n c).

The limit is used only where it holds to less than the scatter of the resamples themselves.
Lyapunov's ratio L = Σ|d|³ / (Σ d²)^1.5 over the units' deviations d bounds the skewness of a total,
which moves its 2.5 % point by at most (z² − 1)·L/6 = 0.47·L standard errors (Cornish–Fisher; Hall,
The Bootstrap and Edgeworth Expansion, 1992, section 2.5). The scatter of 10,000 resamples there is
0.027 standard errors, and L ≤ 0.05 keeps the shift below it. L must be as small for every column (a
subset of few examples has a total of few units) and for the first-order term of every statistic (a
share with few misses, or two runs that differ on few examples).

Where L is larger, the units with the largest deviations are set apart until the others' part of L
is a tenth of that. How often these outliers are drawn is drawn exactly, Binomial(n, m/n) times in
all and each alike; the limit stands for the others alone. With too many outliers, or too many
columns, there is no limit, and every unit is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contrapose.metrics.statistics.resampling import ResamplingUnits
from contrapose.metrics.statistics.statistic import JointStatistic
from contrapose.metrics.types import BoolArray, FloatArray, IntArray

LIMIT_FROM = 10_000
"""Units from which on the limit is used."""

FEWEST_TYPES = 128
"""Types of units below which the number of each is drawn instead."""

MOST_RATIO = 0.05
"""Lyapunov's ratio up to which totals are taken as normal."""

REST_RATIO = MOST_RATIO / 10
"""Part of the ratio that is left to the others where outliers are set apart."""

MOST_OUTLIERS = 5_000
"""Units drawn one by one beside the limit, at most."""

FEW_UNUSUAL = 500
"""Types that differ from all others, up to which all of them are drawn one by one."""

MOST_COLUMNS = 256
"""Columns of which a covariance is computed, at most."""

TILE = 1 << 18
"""Multiplications handed to the matrix library at a time: it does them in one thread."""

ROUNDING = 1e-9
"""Share of a deviation below which two are equal."""

NO_SPREAD = 1e-12
"""Standard deviation, as a share of the largest value, below which a column is constant."""


@dataclass(frozen=True, slots=True, eq=False)
class TotalsLimit:
    """Distribution of resample totals: outliers drawn exactly, the other units by their limit.

    Attributes:
        size: number of units, which is that of the draws of a resample.
        mean: (d,) mean of the other units' distinct columns.
        root: (d, d) symmetric root of their covariance, with the columns' scales.
        column: (c,) the distinct column that each column equals.
        outliers: (t, c) what an outlier of each type adds.
        members: (m,) type of each outlier.
    """

    size: int
    mean: FloatArray
    root: FloatArray
    column: IntArray
    outliers: FloatArray
    members: IntArray

    @property
    def rows(self) -> int:
        """Resamples to draw at a time, so that blocks stay small."""
        held = (1 << 21) // max(1, len(self.members), len(self.outliers))
        return max(1, min(held, max(64, TILE // max(1, self.mean.size**2))))

    def draw(self, rng: np.random.Generator, resamples: int) -> FloatArray:
        """Draw totals (resamples, c)."""
        inside: IntArray = np.zeros(resamples, dtype=np.int64)
        if self.members.size:
            inside = rng.binomial(self.size, self.members.size / self.size, resamples)
        others = (self.size - inside).astype(np.float64)[:, None]
        noise = rng.standard_normal((resamples, self.mean.size)) @ self.root
        totals = (others * self.mean + np.sqrt(others) * noise)[:, self.column]
        if self.members.size:
            types = len(self.outliers)
            kinds = self.members[rng.integers(0, self.members.size, size=int(inside.sum()))]
            cells = np.repeat(np.arange(resamples) * types, inside) + kinds
            counts = np.bincount(cells, minlength=resamples * types).reshape(resamples, types)
            totals += counts.astype(np.float64) @ self.outliers
        return np.asarray(totals)


def find_limit(joint: JointStatistic, units: ResamplingUnits) -> TotalsLimit | None:
    """Find the limit of the totals of resamples of these units; None where they are to be drawn."""
    types, width = units.rows.shape
    if units.size < LIMIT_FROM or types < FEWEST_TYPES or width > MOST_COLUMNS:
        return None
    weights = units.counts.astype(np.float64) if units.few else None
    mean, spread = _moments(units.rows, weights, units.size)
    apart = np.zeros(types, dtype=np.bool_)
    for j in np.flatnonzero(spread):
        apart |= _find_outliers(units.rows[:, j] - mean[j], weights)
    for direction in _gradients(joint, mean * units.size, spread * np.sqrt(units.size)):
        used = np.flatnonzero(direction)
        first_order = units.rows[:, used] @ direction[used]
        apart |= _find_outliers(first_order - mean[used] @ direction[used], weights)
    members = np.repeat(np.arange(np.count_nonzero(apart)), units.counts[apart])
    if members.size > min(MOST_OUTLIERS, units.size // 2):
        return None
    rows = units.rows
    column: IntArray = np.arange(width)
    if members.size:
        rows = np.asfortranarray(rows[~apart])
        weights = None if weights is None else weights[~apart]
        # Columns that differ on the outliers alone stay equal to the last digit.
        firsts, column = _distinct_columns(rows)
        rows = rows[:, firsts]
        mean, spread = _moments(rows, weights, units.size - members.size)
    root = _root(rows, weights, mean, spread, units.size - members.size)
    return TotalsLimit(units.size, mean, root, column, units.rows[apart], members)


def _moments(
    rows: FloatArray, weights: FloatArray | None, size: int
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of every column; a deviation that is rounding is 0."""
    mean, spread = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for j, column in enumerate(rows.T):
        total = float(column.sum() if weights is None else weights @ column)
        mean[j] = total / size
        square = (column - mean[j]) ** 2
        variance = float(square.sum() if weights is None else weights @ square) / size
        deviation = float(np.sqrt(variance))
        spread[j] = deviation if deviation > NO_SPREAD * np.abs(column).max() else 0.0
    return mean, spread


def _find_outliers(deviations: FloatArray, weights: FloatArray | None) -> BoolArray:
    """Mask of the types without which the part of the others in Lyapunov's ratio is small."""
    size = np.abs(deviations)
    squares = deviations * deviations
    cubes = squares * size
    if weights is not None:
        squares, cubes = weights * squares, weights * cubes
    scale = float(squares.sum()) ** 1.5
    if float(cubes.sum()) <= MOST_RATIO * scale:
        return np.zeros(len(size), dtype=np.bool_)
    order = np.argsort(size)
    kept = int(np.searchsorted(np.cumsum(cubes[order]), REST_RATIO * scale, side="right"))
    # Those as large as the smallest outlier, up to rounding, are outliers too.
    apart = np.asarray(size >= size[order[min(kept, len(order) - 1)]] * (1 - ROUNDING))
    # Where few units differ from all the others, these are outliers, however small.
    unusual = np.abs(deviations - np.median(deviations)) > ROUNDING * size.max()
    return apart | unusual if np.count_nonzero(unusual) <= FEW_UNUSUAL else apart


def _gradients(joint: JointStatistic, totals: FloatArray, errors: FloatArray) -> FloatArray:
    """(f, c) slope of each statistic in each total, over one standard error to both sides."""
    steps = np.diag(errors)
    values = [joint.values(totals + sign * steps) for sign in (1, -1)]
    change = np.stack(values[0]) - np.stack(values[1])
    slopes = np.divide(change, 2 * errors, out=np.zeros_like(change), where=errors > 0)
    return np.where(np.isfinite(slopes), slopes, 0.0)


def _distinct_columns(rows: FloatArray) -> tuple[list[int], IntArray]:
    """Positions of the distinct columns, and for each column which of them it is."""
    names: dict[bytes, int] = {}
    firsts: list[int] = []
    column: IntArray = np.zeros(rows.shape[1], dtype=np.int64)
    for j, values in enumerate(rows.T):
        name = values.tobytes()
        if name not in names:
            names[name] = len(firsts)
            firsts.append(j)
        column[j] = names[name]
    return firsts, column


def _root(
    rows: FloatArray, weights: FloatArray | None, mean: FloatArray, spread: FloatArray, size: int
) -> FloatArray:
    """Symmetric root of the columns' correlations, times their scales.

    A symmetric root does not depend on the signs of eigenvectors, nor on their choice where
    eigenvalues are equal.
    """
    width = len(mean)
    scale = np.divide(1.0, spread, out=np.zeros(width), where=spread > 0)
    product = np.zeros((width, width))
    step = max(64, TILE // max(1, width * width))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        block = (rows[part] - mean) * scale
        product += block.T @ (block if weights is None else block * weights[part, None])
    values, vectors = np.linalg.eigh(product / max(1, size))
    sizes = np.where(values > NO_SPREAD * max(1.0, float(values[-1])), values, 0.0)
    return np.asarray((vectors * np.sqrt(sizes)) @ vectors.T * spread)
