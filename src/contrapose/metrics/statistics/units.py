"""What is drawn in a resample: examples or clusters of them, and which of these add the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contrapose.errors import InputError
from contrapose.metrics.statistics.joint import Joint, renumber
from contrapose.metrics.types import FloatArray, IntArray

BINOMIAL_COST = 20
"""How many unit draws one binomial draw costs."""

SAMPLE = 2048
"""Units looked at first, to see whether a search for types can pay."""


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Units of resampling, by type.

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


def units_of(joint: Joint, clusters: IntArray | None) -> Units:
    """Find the units and their types.

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
        if _pays(int(used.sum()), size):
            return Units(joint.columns[used], counts[used], few=True)
    weights = np.random.default_rng(0).standard_normal((width,))
    key: NDArray[np.float64] = np.zeros(size)
    for j in range(width):
        key += weights[j] * column(j)
    if size > SAMPLE and np.unique(key[:SAMPLE]).size > SAMPLE // 2:
        return _apart(column, width, size)
    _, first, kind, counts = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    if not _pays(len(first), size):
        return _apart(column, width, size)
    rows = np.empty((len(first), width))
    for j in range(width):
        values = column(j)
        rows[:, j] = values[first]
        if not np.array_equal(rows[kind, j], values):
            return _apart(column, width, size)
    return Units(rows, counts, few=True)


def unit_columns(
    joint: Joint, clusters: IntArray | None
) -> tuple[Callable[[int], FloatArray], int]:
    """What each unit adds to column j, as a function of j, and the number of units."""
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
    """Cluster codes without gaps and their number; no codes when each example is its own cluster.

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


def _pays(types: int, units: int) -> bool:
    return types * BINOMIAL_COST <= units or types == 1


def _apart(column: Callable[[int], FloatArray], width: int, size: int) -> Units:
    """Every unit a type of its own."""
    rows = np.empty((size, width))
    for j in range(width):
        rows[:, j] = column(j)
    return Units(rows, np.ones(size, dtype=np.int64), few=False)
