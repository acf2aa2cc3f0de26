"""Numbers that are functions of sums over examples, so that resampling them is arithmetic.

A mean, a weighted mean, a standard deviation, a macro average, the lesser of two means: each is a
formula of a few column totals. The bootstrap needs nothing else: it draws totals and puts them into
the formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrapose.errors import InputError
from contrapose.metrics.types import FloatArray, IntArray, finite

Formula = Callable[[FloatArray], FloatArray]
"""From totals (r, c), one row a resample, to values (r,)."""

FEW = 64
"""Up to this many distinct values are kept as kinds instead of one row an example."""


@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """A number that depends on the examples only through sums over them.

    Attributes:
        columns: (k, c) what each example adds to each of c totals; with `kinds`, (t, c) what an
            example of each kind adds.
        formula: from totals (r, c) to values (r,).
        kinds: (k,) the row of `columns` that an example adds; None: row i is example i. A macro
            average of 0/1 outcomes over many groups has few kinds and many columns.
    """

    columns: FloatArray
    formula: Formula
    kinds: IntArray | None = None

    @property
    def examples(self) -> int:
        """Number of examples."""
        return len(self.columns) if self.kinds is None else len(self.kinds)

    def totals(self) -> FloatArray:
        """(c,) column sums over all examples."""
        if self.kinds is None:
            return np.asarray(self.columns.sum(axis=0))
        return np.bincount(self.kinds, minlength=len(self.columns)) @ self.columns

    def value(self) -> float:
        """The number itself; NaN when nothing counts towards it."""
        return float(self.formula(self.totals()[None])[0])


def mean_of(values: ArrayLike, weights: ArrayLike | None = None) -> Statistic:
    """The mean, or the weighted mean Σ w·v / Σ w, of one value an example.

    An example of weight 0 is not counted.
    """
    array = _one_each(values)
    share = _weights(weights, len(array))
    levels, kinds = _levels(array)
    heights, kinds_of_weight = _levels(share)
    if kinds is not None and kinds_of_weight is not None:
        kinds = kinds * len(heights) + kinds_of_weight
        v, w = np.repeat(levels, len(heights)), np.tile(heights, len(levels))
        return Statistic(np.stack([w * v, w], axis=1), _ratio, kinds)
    centre, centred = _centred(array)
    columns = np.stack([share * centred, share], axis=1)
    return Statistic(columns, lambda totals: centre + _ratio(totals))


def standard_deviation(values: ArrayLike) -> Statistic:
    """The population standard deviation of one value an example."""
    _, centred = _centred(_one_each(values))
    columns = np.stack([centred, centred**2, np.ones_like(centred)], axis=1)

    def formula(totals: FloatArray) -> FloatArray:
        mean, square = divide(totals[:, :2], totals[:, 2:]).T
        return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0)))

    return Statistic(columns, formula)


def macro_mean(
    values: ArrayLike, groups: ArrayLike, parents: Sequence[int] | None = None
) -> Statistic:
    """The mean over groups of their means, each group counting alike whatever its size.

    A group that a resample leaves empty is left out of that resample's mean.

    Args:
        values: (k,) one value an example.
        groups: (k,) group codes from 0; −1 means that the example is not counted.
        parents: the parent of each group code. Group means are then averaged within each parent,
            and the parents' means averaged: EqBen's average counts its three Kubric subsets as one.

    Raises:
        InputError: lengths differ, or a group has no parent.
    """
    array, codes = _one_each(values), _codes(groups)
    if len(codes) != len(array):
        raise InputError(f"{len(array)} values but {len(codes)} group codes.")
    size = int(codes.max(initial=0)) + 1
    if parents is not None and len(parents) < size and (codes >= 0).any():
        raise InputError(f"{size} groups but only {len(parents)} of them have a parent.")
    tree = _membership([0] * size if parents is None else [*parents, 0][:size])
    columns, kinds = _by_group(array, codes, size)

    def formula(totals: FloatArray) -> FloatArray:
        sums, counts = totals[:, :size], totals[:, size:]
        means = divide(sums, counts)
        for members in (tree, np.ones((tree.shape[1], 1))):
            alive = ~np.isnan(means)
            means = divide(np.where(alive, means, 0.0) @ members, alive @ members)
        return means[:, 0]

    return Statistic(columns, formula, kinds)


def minimum_of_means(a: ArrayLike, b: ArrayLike, weights: ArrayLike | None = None) -> Statistic:
    """The lesser of two (weighted) means over the same examples, as VALSE's min(p_c, p_f)."""
    first = _one_each(a)
    second, w = _one_each(b, len(first)), _weights(weights, len(first))
    columns = np.stack([w * first, w * second, w], axis=1)
    return Statistic(columns, lambda t: np.asarray(divide(t[:, :2], t[:, 2:]).min(axis=1)))


def _by_group(values: FloatArray, codes: IntArray, size: int) -> tuple[FloatArray, IntArray | None]:
    """Columns (·, 2·size): the value in its group's column, and a one in its group's count."""
    levels, kinds = _levels(values)
    if kinds is not None:
        # One kind for each (group, value), and one row of zeros at the end for what is not counted.
        kinds = np.where(codes < 0, size * len(levels), codes * len(levels) + kinds)
        values = np.append(np.tile(levels, size), 0.0)
        codes = np.append(np.repeat(np.arange(size), len(levels)), -1)
    columns = np.zeros((len(values), 2 * size))
    counted = np.flatnonzero(codes >= 0)
    columns[counted, codes[counted]] = values[counted]
    columns[counted, size + codes[counted]] = 1.0
    return columns, kinds


def _levels(values: FloatArray) -> tuple[FloatArray, IntArray | None]:
    """The few distinct values and which of them each example has; or the values as they are."""
    if ((values == 0) | (values == 1)).all():
        return np.array([0.0, 1.0]), values.astype(np.int64)
    if np.unique(values[: 4 * FEW]).size > FEW:
        return values, None
    levels, kinds = np.unique(values, return_inverse=True)
    return (levels, kinds) if levels.size <= FEW else (values, None)


def _membership(parents: Sequence[int]) -> NDArray[np.float64]:
    """(groups, parents) one where the group belongs to the parent."""
    distinct, codes = np.unique(parents, return_inverse=True)
    return np.eye(len(distinct))[codes]


def _centred(values: FloatArray) -> tuple[float, FloatArray]:
    """The mean and what is left without it: sums of squares far from zero would lose digits."""
    centre = float(values.mean()) if values.size else 0.0
    return centre, values - centre


def _one_each(values: ArrayLike, length: int | None = None) -> FloatArray:
    array = finite(values, "values")
    if array.ndim != 1 or length not in (None, len(array)):
        wanted = "any" if length is None else length
        raise InputError(f"one value an example is needed ({wanted}), not {array.shape}.")
    return array


def _weights(weights: ArrayLike | None, length: int) -> FloatArray:
    if weights is None:
        return np.ones(length)
    array = _one_each(weights, length)
    if (array < 0).any():
        raise InputError("weights must not be negative.")
    return array


def _codes(groups: ArrayLike) -> NDArray[np.integer[Any]]:
    array = np.asarray(groups)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or not array.size):
        raise InputError(f"group codes must be integers, one an example, not {array.dtype}.")
    return array.astype(np.int64)


def _ratio(totals: FloatArray) -> FloatArray:
    return divide(totals[:, 0], totals[:, 1])


def divide(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """The quotient; NaN where the denominator is not positive."""
    positive = np.broadcast_to(denominator > 0, numerator.shape)
    result = np.full(numerator.shape, np.nan)
    return np.asarray(np.divide(numerator, denominator, out=result, where=positive))
