"""Bootstrap intervals: resample examples, or clusters of them, by their totals alone.

A `Statistic` depends on the examples through column totals, so a resample is a vector of counts
times the matrix of what each unit (an example, or a cluster of examples that share an image) adds.
That leaves three ways, and the cheapest one that holds is taken:

- Units that add the same are of one type. When there are few types (0/1 outcomes have a handful),
  the number of units drawn of each type follows Multinomial(units, share of each type): a resample
  of 250,000 examples costs a handful of binomial draws.
- Else the counts of all units are drawn (`draw_counts`), in blocks of bounded size, several at a
  time.
- From `limit.LIMIT_FROM` units on, totals are drawn from their normal limit where that holds to
  less than the scatter of the resamples; the first two ways are exact.

Above `MOST_DRAWS` draws in all (units × resamples) the second way takes fewer resamples,
`MOST_DRAWS / units` but at least 1,000; their own scatter at each end of the interval is then at
most 9 % of a standard error.

Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13: percentile interval.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np

from contrapose.errors import InputError
from contrapose.metrics.statistics.limit import find_limit
from contrapose.metrics.statistics.resampling import (
    ResamplingUnits,
    draw_counts,
    find_units,
    sum_units,
)
from contrapose.metrics.statistics.shares import NO_INTERVAL, exact_interval
from contrapose.metrics.statistics.statistic import Statistic, alone, join
from contrapose.metrics.types import FloatArray, IntArray

T = TypeVar("T")

RESAMPLES = 10_000
MOST_DRAWS = 200_000_000
FEWEST_RESAMPLES = 1_000

BLOCK = 1 << 21
"""Counts held at a time by each worker, of one byte each; making them takes some 8 MB."""

TILE = 1 << 18
"""Multiplications handed to the matrix library at a time.

It does no more than that in one thread. Above, it would start threads of its own beside ours; and
tiles of this size stay in a processor's second cache.
"""

MANY_EXAMPLES = 100_000
"""Examples from which on tasks run in threads."""

NARROWEST = 64
"""Units in a tile at least."""


def replicates(
    statistic: Statistic,
    *,
    clusters: IntArray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> FloatArray:
    """Bootstrap replicates: the statistic's value in each resample.

    Args:
        statistic: what to resample.
        clusters: (k,) codes ≥ 0; examples with one code are drawn together. None: each example by
            itself.
        resamples: how many; very large sets take fewer, see the module's text.
        seed: the same seed gives the same resamples, on any number of processors.
    """
    return joint_replicates([statistic], clusters=clusters, resamples=resamples, seed=seed)[0]


def interval(
    statistic: Statistic,
    *,
    clusters: IntArray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float]:
    """Interval of a statistic: percentiles of its replicates; arguments as in `replicates`.

    Where a bootstrap has too little to resample it is the interval of `shares.exact_interval`.
    Resamples in which the statistic is undefined are left out. (NaN, NaN) when it always is, or
    when there are too few units.
    """
    exact = exact_interval(statistic, clusters, level)
    if exact is not None:
        return exact
    drawn = replicates(statistic, clusters=clusters, resamples=resamples, seed=seed)
    return _statistic_interval(statistic, drawn, level)


def intervals(
    statistics: Sequence[Statistic],
    *,
    clusters: IntArray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> list[tuple[float, float]]:
    """Intervals of statistics on the same examples, as `interval` has them.

    They are drawn together where that is cheaper, so an interval may differ from the one drawn
    alone by the scatter of the resamples.
    """
    bounds = run_tasks(
        [partial(exact_interval, statistic, clusters, level) for statistic in statistics],
        max((statistic.examples for statistic in statistics), default=0),
    )
    summed = sum_units(statistics, clusters)
    for batch in _batches(summed):
        drawn = joint_replicates([summed[i] for i in batch], resamples=resamples, seed=seed)
        for i, values in zip(batch, drawn, strict=True):
            if bounds[i] is None:
                bounds[i] = _statistic_interval(statistics[i], values, level)
    return [NO_INTERVAL if bound is None else bound for bound in bounds]


def _statistic_interval(
    statistic: Statistic, values: FloatArray, level: float
) -> tuple[float, float]:
    """Percentile interval; that of a share ends at 0 and 1, which a normal limit may pass."""
    low, high = percentile_interval(values, level)
    return (low, high) if statistic.share is None else (max(low, 0.0), min(high, 1.0))


def percentile_interval(values: FloatArray, level: float = 0.95) -> tuple[float, float]:
    """Percentile interval: the central `level` of the values that are not NaN."""
    known = values[~np.isnan(values)]
    if not known.size:
        return float("nan"), float("nan")
    tail = (1 - level) / 2
    low, high = np.quantile(known, [tail, 1 - tail])
    return float(low), float(high)


def joint_replicates(
    statistics: Sequence[Statistic],
    *,
    clusters: IntArray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[FloatArray]:
    """Bootstrap replicates of several statistics in the same resamples; see `replicates`."""
    if resamples < 1:
        raise InputError(f"resamples must be at least 1, not {resamples}.")
    joint = join(sum_units(statistics, clusters))
    units = find_units(joint, None)
    if not units.size:
        return [np.full(resamples, np.nan) for _ in statistics]
    limit = find_limit(joint, units)
    types, columns = units.rows.shape
    rows = BLOCK // types
    if limit is not None:
        rows = limit.rows
    elif not units.few:
        rows = min(rows, TILE // (NARROWEST * columns))
        resamples = limit_resamples(units.size, resamples)

    def draw(rng: np.random.Generator, size: int) -> FloatArray:
        if limit is not None:
            return limit.draw(rng, size)
        return (_draw_types if units.few else _draw_units)(rng, units, size)

    blocks = map_blocks(
        lambda rng, size: joint.values(draw(rng, size)),
        rows=rows,
        resamples=resamples,
        seed=seed,
    )
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def limit_resamples(units: int, resamples: int) -> int:
    """Limit the resamples of so many units when each unit is drawn by itself."""
    return min(resamples, max(FEWEST_RESAMPLES, MOST_DRAWS // units))


def map_blocks(
    work: Callable[[np.random.Generator, int], T], *, rows: int, resamples: int, seed: int
) -> list[T]:
    """Map `work(rng, size)` over blocks of at most `rows` resamples (at least one), in threads.

    Every block has a random stream of its own, so the result does not depend on how many are
    worked on at once.
    """
    step = max(1, rows)
    sizes = [min(step, resamples - start) for start in range(0, resamples, step)]
    streams = np.random.SeedSequence(seed).spawn(len(sizes))

    def one(stream: np.random.SeedSequence, size: int) -> T:
        return work(np.random.default_rng(stream), size)

    if len(sizes) == 1:
        return [one(streams[0], sizes[0])]
    with ThreadPoolExecutor(min(len(sizes), os.cpu_count() or 1)) as pool:
        return list(pool.map(one, streams, sizes))


def run_tasks(tasks: Sequence[Callable[[], T]], examples: int) -> list[T]:
    """Run tasks that do not depend on each other, and return their results in order.

    Args:
        tasks: pure functions, which may run at the same time.
        examples: of their arrays; with `MANY_EXAMPLES` threads run them, since NumPy computes large
            arrays without the interpreter's lock.
    """
    if len(tasks) < 2 or examples < MANY_EXAMPLES:
        return [task() for task in tasks]
    with ThreadPoolExecutor(min(len(tasks), os.cpu_count() or 1)) as pool:
        return [future.result() for future in [pool.submit(task) for task in tasks]]


def _batches(statistics: Sequence[Statistic]) -> list[list[int]]:
    """Batches of positions of the statistics, of units, to draw together.

    One of many types would make the others dear, so those of few types are drawn apart from it; and
    one by one when together they are of many types.
    """
    few: list[int] = []
    many: list[int] = []
    for i, statistic in enumerate(statistics):
        (few if find_units(alone(statistic), None).few else many).append(i)
    if few and not find_units(join([statistics[i] for i in few]), None).few:
        return [*([i] for i in few), *([many] if many else [])]
    return [batch for batch in (few, many) if batch]


def _draw_types(rng: np.random.Generator, units: ResamplingUnits, resamples: int) -> FloatArray:
    """Totals (resamples, c) from the number of units drawn of each type."""
    # The last share is not used by the sampler: it gets what is left. Rounding is least there.
    order = np.argsort(units.counts)
    drawn = rng.multinomial(units.size, units.counts[order] / units.size, size=resamples)
    return np.asarray(drawn.astype(np.float64) @ units.rows[order])


def _draw_units(rng: np.random.Generator, units: ResamplingUnits, resamples: int) -> FloatArray:
    """Totals (resamples, c) from how often each unit is drawn."""
    counts = draw_counts(rng, units.size, resamples)
    totals = np.zeros((resamples, units.rows.shape[1]))
    step = max(NARROWEST, TILE // totals.size)
    for start in range(0, units.size, step):
        part = slice(start, start + step)
        totals += counts[:, part].astype(np.float64) @ units.rows[part]
    return totals
