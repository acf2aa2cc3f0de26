"""Units of resampling: clusters of examples, their types, and multinomial draw counts.

The counts follow the multinomial distribution over n equally likely units. Drawing n indices and
counting them costs about seven nanoseconds a draw, most of it random access. Above a thousand units
the counts are therefore made the other way round, with the same distribution:

1. Independent Poisson(λ) counts, given their sum N, are multinomial over N draws. λ is a little
   below 1, so that N < n (a resample with N > n is drawn again: given N nothing else changes).
2. The n − N draws still missing are drawn as indices.

A Poisson count is read off 16 random bits: `count ≥ j` where the bits are at or above the j-th of
a few thresholds, which compilers turn into wide instructions. Probabilities are not multiples of
2⁻¹⁶; the few bit patterns left over by rounding down are redrawn from the exact remainder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from contrapose.errors import InputError
from contrapose.metrics.statistics.statistic import JointStatistic, Statistic, alone, renumber
from contrapose.metrics.types import FloatArray, IntArray


def clusters_of(keys: Sequence[Iterable[Hashable]]) -> IntArray:
    """Cluster codes 0 … C − 1, in order of first appearance, for examples linked by shared keys.

    Two examples that share any key are in one cluster, and so are those linked through others: the
    connected components, found by union-find with path halving. An example without keys is a
    cluster of its own.

    Args:
        keys: for each example what it may share, such as its images' ids.
    """
    parent = list(range(len(keys)))
    owner: dict[Hashable, int] = {}
    for example, shared in enumerate(keys):
        root = example
        for key in shared:
            other = owner.setdefault(key, example)
            if other == root:
                continue
            while parent[other] != other:
                parent[other] = other = parent[parent[other]]
            while parent[root] != root:
                parent[root] = root = parent[parent[root]]
            # The earlier example leads, so that roots are first appearances.
            if other < root:
                parent[root] = root = other
            else:
                parent[other] = root
    roots = np.array(parent, dtype=np.int64)
    while not np.array_equal(above := roots[roots], roots):
        roots = above
    _, codes = np.unique(roots, return_inverse=True)
    return np.asarray(codes)


def join_clusters(codes: Sequence[IntArray]) -> IntArray:
    """Join clusters: examples that share any of several codes, directly or through others.

    As `clusters_of`, of integer codes, by array operations: roots are hooked to the least root of
    each group, and paths are halved, until nothing changes.

    Args:
        codes: arrays (k,) of codes ≥ 0, at least one.
    """
    size = len(codes[0])
    groups = []
    for array in codes:
        code, count = renumber(np.asarray(array), int(np.max(array, initial=-1)) + 1)
        if count == size:  # all apart
            continue
        order = np.argsort(code, kind="stable")
        sizes = np.bincount(code, minlength=count)
        starts = np.cumsum(sizes) - sizes
        groups.append((code, order, starts))
    roots: IntArray = np.arange(size)
    while groups:
        before = roots.copy()
        for code, order, starts in groups:
            least = np.minimum.reduceat(roots[order], starts)
            np.minimum.at(roots, roots.copy(), least[code])
            while not np.array_equal(above := roots[roots], roots):
                roots = above
        if np.array_equal(roots, before):
            break
    return renumber(roots, size)[0]


def has_repeats(codes: IntArray) -> bool:
    """Whether any cluster holds more than one example."""
    return bool(codes.size) and bool(np.unique(codes).size < codes.size)


BINOMIAL_COST = 20
"""How many unit draws one binomial draw costs."""

SAMPLE = 2048
"""Units looked at first, to see whether a search for types can pay."""


@dataclass(frozen=True, slots=True, eq=False)
class ResamplingUnits:
    """Units of resampling, grouped by type.

    Attributes:
        rows: (t, c) what a unit of each type adds.
        counts: (t,) how many units there are of each type; the number of units is their sum.
        few: drawing the number of each type is cheaper than drawing units; else every unit is a
            type of its own.
    """

    rows: FloatArray
    counts: IntArray
    few: bool

    @property
    def size(self) -> int:
        """Number of units."""
        return int(self.counts.sum())


def find_units(joint: JointStatistic, clusters: IntArray | None) -> ResamplingUnits:
    """Find the resampling units and their types.

    Units are told apart by one key each, the product of what they add with a random vector; since
    two rows could in principle share a key, equality is verified and types are given up if it
    fails.

    Raises:
        InputError: clusters are not one code ≥ 0 an example.
    """
    column, size = unit_columns(joint, clusters)
    width = joint.columns.shape[1]
    if joint.kinds is not None and size == len(joint.kinds):
        counts = np.bincount(joint.kinds, minlength=len(joint.columns))
        used = counts > 0
        if _is_worthwhile(int(used.sum()), size):
            return ResamplingUnits(joint.columns[used], counts[used], few=True)
    weights = np.random.default_rng(0).standard_normal((width,))
    key: NDArray[np.float64] = np.zeros(size)
    for j in range(width):
        key += weights[j] * column(j)
    if size > SAMPLE and np.unique(key[:SAMPLE]).size > SAMPLE // 2:
        return _one_type_per_unit(column, width, size)
    _, first, kind, counts = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    if not _is_worthwhile(len(first), size):
        return _one_type_per_unit(column, width, size)
    rows = np.empty((len(first), width))
    for j in range(width):
        values = column(j)
        rows[:, j] = values[first]
        if not np.array_equal(rows[kind, j], values):
            return _one_type_per_unit(column, width, size)
    return ResamplingUnits(rows, counts, few=True)


def sum_units(statistics: Sequence[Statistic], clusters: IntArray | None) -> list[Statistic]:
    """Statistics of units instead of examples: what the examples of a cluster add is summed.

    Those of independent examples are returned as they are.

    Raises:
        InputError: clusters are not one code ≥ 0 an example.
    """
    summed: list[Statistic] = []
    for statistic in statistics:
        column, size = unit_columns(alone(statistic), clusters)
        if size == statistic.examples:
            summed.append(statistic)
            continue
        columns = np.empty((statistic.columns.shape[1], size))
        for j, row in enumerate(columns):
            row[:] = column(j)
        summed.append(Statistic(columns.T, statistic.formula))
    return summed


def unit_columns(
    joint: JointStatistic, clusters: IntArray | None
) -> tuple[Callable[[int], FloatArray], int]:
    """Contribution of each unit to column j, as a function of j, and the number of units."""
    columns, kinds = joint.columns, joint.kinds
    examples = len(columns) if kinds is None else len(kinds)
    codes, size = cluster_codes(clusters, examples)

    def column(j: int) -> FloatArray:
        values: FloatArray = columns[:, j] if kinds is None else columns[kinds, j]
        if codes is None:
            return values
        return np.asarray(np.bincount(codes, weights=values, minlength=size), dtype=np.float64)

    return column, size


def cluster_codes(clusters: IntArray | None, examples: int) -> tuple[IntArray | None, int]:
    """Cluster codes without gaps and their number; None if every example is its own cluster.

    Raises:
        InputError: they are not one code ≥ 0 an example.
    """
    if clusters is None or not examples:
        return None, examples
    codes = np.asarray(clusters)
    if codes.shape != (examples,) or not np.issubdtype(codes.dtype, np.integer) or codes.min() < 0:
        raise InputError(f"clusters must be one code ≥ 0 for each of {examples} examples.")
    codes, size = renumber(codes, int(codes.max()) + 1)
    return (None if size == examples else codes), size


def _is_worthwhile(types: int, units: int) -> bool:
    return types * BINOMIAL_COST <= units or types == 1


def _one_type_per_unit(
    column: Callable[[int], FloatArray], width: int, size: int
) -> ResamplingUnits:
    """Units of which each has a type of its own."""
    rows = np.empty((width, size)).T
    for j in range(width):
        rows[:, j] = column(j)
    return ResamplingUnits(rows, np.ones(size, dtype=np.int64), few=False)


CountArray = NDArray[np.uint8]

PLAIN_BELOW = 1024
"""Fewer units than this are drawn as plain indices."""

_MARGIN = 6.0
"""λ·n lies this many standard deviations below n: one resample in 10⁹ is drawn again."""

_CELLS = 1 << 16


def draw_counts(rng: np.random.Generator, units: int, resamples: int) -> NDArray[np.integer]:
    """(resamples, units) multinomial counts of the units in resamples of `units` draws."""
    if units < PLAIN_BELOW:
        return index_counts(rng, units, resamples)
    return poisson_counts(rng, units, resamples)


def index_counts(rng: np.random.Generator, units: int, resamples: int) -> NDArray[np.int64]:
    """Multinomial counts by drawing indices."""
    drawn = rng.integers(0, units, size=(resamples, units), dtype=np.int32)
    places = drawn + np.arange(resamples)[:, None] * units
    return np.bincount(places.ravel(), minlength=resamples * units).reshape(resamples, units)


def poisson_counts(rng: np.random.Generator, units: int, resamples: int) -> CountArray:
    """Multinomial counts by Poisson draws and a remainder of indices."""
    rate = 1.0 - _MARGIN / math.sqrt(units)
    counts = _draw_poisson(rng, rate, (resamples, units))
    missing = units - counts.sum(axis=1, dtype=np.int64)
    for row in np.flatnonzero(missing < 0):
        while missing[row] < 0:
            counts[row] = _draw_poisson(rng, rate, (1, units))[0]
            missing[row] = units - int(counts[row].sum(dtype=np.int64))
    rows = np.repeat(np.arange(resamples) * units, missing)
    np.add.at(counts.reshape(-1), rows + rng.integers(0, units, size=len(rows)), np.uint8(1))
    return counts


def _draw_poisson(rng: np.random.Generator, rate: float, shape: tuple[int, int]) -> CountArray:
    """Draw independent Poisson counts."""
    thresholds, remainder = _poisson_table(rate)
    size = shape[0] * shape[1]
    bits = rng.integers(0, 1 << 64, size=-(-size // 4), dtype=np.uint64).view(np.uint16)[:size]
    counts = np.zeros(size, dtype=np.uint8)
    reached = np.empty(size, dtype=np.bool_)
    for threshold in thresholds:
        np.greater_equal(bits, threshold, out=reached)
        counts += reached.view(np.uint8)
    # `reached` now marks the bit patterns above the last threshold: those left over.
    left = np.flatnonzero(reached)
    counts[left] = rng.choice(len(remainder), size=len(left), p=remainder)
    return counts.reshape(shape)


@lru_cache(maxsize=64)
def _poisson_table(rate: float) -> tuple[NDArray[np.uint16], FloatArray]:
    """Thresholds of Poisson counts on 16 bits, and the distribution of the leftover patterns.

    The remainder is what Poisson probabilities have beyond full cells, normalized; counts too rare
    for a cell of their own are all in it.
    """
    most = 32  # P(count > 32) < 10⁻³⁷, below what a double can add to 1
    j = np.arange(most + 1)
    log_factorial = np.array([math.lgamma(i + 1.0) for i in j])
    cells = np.exp(j * math.log(rate) - rate - log_factorial) * _CELLS
    full = np.floor(cells)
    remainder = (cells - full) / (cells - full).sum()
    full = full[: int(np.flatnonzero(full)[-1]) + 1]
    return np.cumsum(full).astype(np.uint16), remainder
