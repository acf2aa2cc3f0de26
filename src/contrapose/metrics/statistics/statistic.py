"""Statistics that are functions of sums over examples, so that resampling is arithmetic.

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
from contrapose.metrics.types import FloatArray, IntArray, require_finite

Formula = Callable[[FloatArray], FloatArray]
"""From totals (r, c), one row a resample, to values (r,)."""

Share = Callable[[], tuple[FloatArray, FloatArray]]
"""Hits (k,) and weights (k,) of which a share is Σ hits; the weights sum to 1."""

FEW = 64
"""Up to this many distinct values are kept as kinds instead of one row an example."""


@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """Statistic that depends on the examples only through sums over them.

    Attributes:
        columns: (k, c) what each example adds to each of c totals; with `kinds`, (t, c) what an
            example of each kind adds.
        formula: from totals (r, c) to values (r,).
        kinds: (k,) the row of `columns` that an example adds; None: row i is example i. A macro
            average of 0/1 outcomes over many groups has few kinds and many columns.
        share: how the examples add to a share, an average of values from 0 to 1; None for others.
    """

    columns: FloatArray
    formula: Formula
    kinds: IntArray | None = None
    share: Share | None = None

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
        """Value of the statistic; NaN when nothing counts towards it."""
        return float(self.formula(self.totals()[None])[0])


def mean_of(
    values: ArrayLike, weights: ArrayLike | None = None, *, share: bool | None = None
) -> Statistic:
    """Mean, or weighted mean Σ w·v / Σ w, of one value per example.

    An example of weight 0 is not counted.

    Args:
        values: (k,) one value an example.
        weights: (k,) how much an example counts; None: all alike.
        share: whether it is a share of examples; None: if all values are 0 or 1.
    """
    array = _check_values(values)
    weight = _check_weights(weights, len(array))
    levels, kinds = _factorize(array)
    heights, kinds_of_weight = _factorize(weight)
    parts = _share_of(array, weight) if _is_share(array, share) else None
    if kinds is not None and kinds_of_weight is not None:
        kinds = kinds * len(heights) + kinds_of_weight
        v, w = np.repeat(levels, len(heights)), np.tile(heights, len(levels))
        return Statistic(np.stack([w * v, w], axis=1), _ratio, kinds, parts)
    # Shares are not centered: rounding would put some above 1.
    center, centered = _center(array) if parts is None else (0.0, array)
    columns = np.stack([weight * centered, weight], axis=1)
    return Statistic(columns, lambda totals: center + _ratio(totals), share=parts)


def standard_deviation(values: ArrayLike) -> Statistic:
    """Population standard deviation of one value per example."""
    _, centered = _center(_check_values(values))
    columns = np.stack([centered, centered**2, np.ones_like(centered)], axis=1)

    def formula(totals: FloatArray) -> FloatArray:
        mean, square = divide(totals[:, :2], totals[:, 2:]).T
        return np.asarray(np.sqrt(np.maximum(square - mean**2, 0.0)))

    return Statistic(columns, formula)


def macro_mean(
    values: ArrayLike,
    groups: ArrayLike,
    parents: Sequence[int] | None = None,
    *,
    share: bool | None = None,
) -> Statistic:
    """Macro mean: the mean over groups of their means, each group with equal weight.

    A group that a resample leaves empty is left out of that resample's mean.

    Args:
        values: (k,) one value an example.
        groups: (k,) group codes from 0; −1 means that the example is not counted.
        parents: the parent of each group code. Group means are then averaged within each parent,
            and the parents' means averaged: EqBen's average counts its three Kubric subsets as one.
        share: as in `mean_of`.

    Raises:
        InputError: lengths differ, or a group has no parent.
    """
    array, codes = _check_values(values), _check_codes(groups)
    if len(codes) != len(array):
        raise InputError(f"{len(array)} values but {len(codes)} group codes.")
    size = int(codes.max(initial=0)) + 1
    if parents is not None and len(parents) < size and (codes >= 0).any():
        raise InputError(f"{size} groups but only {len(parents)} of them have a parent.")
    tree = _membership([0] * size if parents is None else [*parents, 0][:size])
    columns, kinds = _group_columns(array, codes, size)

    def formula(totals: FloatArray) -> FloatArray:
        sums, counts = totals[:, :size], totals[:, size:]
        means = divide(sums, counts)
        for members in (tree, np.ones((tree.shape[1], 1))):
            alive = ~np.isnan(means)
            means = divide(np.where(alive, means, 0.0) @ members, alive @ members)
        return means[:, 0]

    def parts() -> tuple[FloatArray, FloatArray]:
        counts = np.bincount(codes[codes >= 0], minlength=size)
        siblings = (counts > 0).astype(np.float64) @ tree
        group = divide(tree @ divide(np.ones(tree.shape[1]), siblings), counts.astype(np.float64))
        weights = np.where(codes >= 0, group[codes], 0.0) / np.count_nonzero(siblings)
        return weights * array, weights

    return Statistic(columns, formula, kinds, parts if _is_share(array, share) else None)


def minimum_of_means(a: ArrayLike, b: ArrayLike, weights: ArrayLike | None = None) -> Statistic:
    """Minimum of two (weighted) means over the same examples, as VALSE's min(p_c, p_f)."""
    first = _check_values(a)
    second, w = _check_values(b, len(first)), _check_weights(weights, len(first))
    columns = np.stack([w * first, w * second, w], axis=1)
    lesser = first if w @ first <= w @ second else second
    return Statistic(
        columns,
        lambda t: np.asarray(divide(t[:, :2], t[:, 2:]).min(axis=1)),
        share=_share_of(lesser, w) if _is_share(first) and _is_share(second) else None,
    )


def _is_share(values: FloatArray, share: bool | None = None) -> bool:
    """Whether a mean of the values is a share: as it is told, or if all are 0 or 1."""
    if share is None:
        return bool(((values == 0) | (values == 1)).all())
    return share and bool(((values >= 0) & (values <= 1)).all())


def _share_of(values: FloatArray, weights: FloatArray) -> Share:
    """Hits and weights of a weighted mean."""

    def parts() -> tuple[FloatArray, FloatArray]:
        total = float(weights.sum())
        normalized = weights / total if total > 0 else weights
        return normalized * values, normalized

    return parts


def _group_columns(
    values: FloatArray, codes: IntArray, size: int
) -> tuple[FloatArray, IntArray | None]:
    """Columns (·, 2·size): the value in its group's column, and a one in its group's count."""
    levels, kinds = _factorize(values)
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


def _factorize(values: FloatArray) -> tuple[FloatArray, IntArray | None]:
    """Distinct values and each example's index into them, if few; else the values and None."""
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


def _center(values: FloatArray) -> tuple[float, FloatArray]:
    """Mean, and the values less the mean: sums of squares far from zero would lose digits."""
    center = float(values.mean()) if values.size else 0.0
    return center, values - center


def _check_values(values: ArrayLike, length: int | None = None) -> FloatArray:
    array = require_finite(values, "values")
    if array.ndim != 1 or length not in (None, len(array)):
        wanted = "any" if length is None else length
        raise InputError(f"one value an example is needed ({wanted}), not {array.shape}.")
    return array


def _check_weights(weights: ArrayLike | None, length: int) -> FloatArray:
    if weights is None:
        return np.ones(length)
    array = _check_values(weights, length)
    if (array < 0).any():
        raise InputError("weights must not be negative.")
    return array


def _check_codes(groups: ArrayLike) -> NDArray[np.integer[Any]]:
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


@dataclass(frozen=True, slots=True, eq=False)
class JointStatistic:
    """Statistics on the same examples, with their common columns stored once.

    Attributes:
        columns: as in `Statistic`, for all of them.
        kinds: as in `Statistic`.
        formulas: each statistic's formula.
        positions: the columns that each formula takes.
    """

    columns: FloatArray
    kinds: IntArray | None
    formulas: tuple[Formula, ...]
    positions: tuple[IntArray, ...]

    def values(self, totals: FloatArray) -> list[FloatArray]:
        """Each statistic's values (r,) from the joint totals (r, c)."""
        return [
            formula(totals[:, columns])
            for formula, columns in zip(self.formulas, self.positions, strict=True)
        ]


def alone(statistic: Statistic) -> JointStatistic:
    """Joint statistic of one, with all its columns as they are."""
    positions = np.arange(statistic.columns.shape[1])
    return JointStatistic(statistic.columns, statistic.kinds, (statistic.formula,), (positions,))


def join(statistics: Sequence[Statistic]) -> JointStatistic:
    """Join statistics on the same examples, storing common columns once.

    Raises:
        InputError: there are none, or they are not on the same number of examples.
    """
    if len({s.examples for s in statistics}) != 1:
        counts = ", ".join(str(s.examples) for s in statistics) or "none"
        raise InputError(f"statistics to combine must share their examples; they have {counts}.")
    kinds, rows = _common_kinds(statistics)
    kept: dict[bytes, int] = {}
    columns: list[FloatArray] = []
    positions: list[IntArray] = []
    for statistic, row in zip(statistics, rows, strict=True):
        block = statistic.columns if row is None else statistic.columns[row]
        taken = []
        for column in block.T:
            name = column.tobytes()
            if name not in kept:
                kept[name] = len(columns)
                columns.append(column)
            taken.append(kept[name])
        positions.append(np.array(taken, dtype=np.int64))
    formulas = tuple(statistic.formula for statistic in statistics)
    # Column by column in memory, as the resampling reads them.
    return JointStatistic(np.stack(columns).T, kinds, formulas, tuple(positions))


def combine(statistics: Sequence[Statistic], weights: Sequence[float] | None = None) -> Statistic:
    """Weighted mean of statistics on the same examples, in the same order.

    Those that are NaN in a resample are left out of its mean.

    Raises:
        InputError: there are none, their examples or the weights do not fit.
    """
    share = np.ones(len(statistics)) if weights is None else np.asarray(weights, dtype=np.float64)
    if len(share) != len(statistics):
        raise InputError(f"{len(statistics)} statistics but {len(share)} weights.")
    if len(statistics) == 1 and share[0] > 0:
        return statistics[0]
    joint = join(statistics)

    def formula(totals: FloatArray) -> FloatArray:
        parts = np.stack(joint.values(totals), axis=1)
        alive = ~np.isnan(parts)
        numerator = (np.where(alive, parts, 0.0) * share).sum(axis=1)
        return divide(numerator, (alive * share).sum(axis=1))

    shares = [statistic.share for statistic in statistics if statistic.share is not None]

    def parts() -> tuple[FloatArray, FloatArray]:
        pairs = [np.stack(one()) for one in shares]
        alive = [weight * bool(pair[1].any()) for weight, pair in zip(share, pairs, strict=True)]
        total = sum(weight * pair for weight, pair in zip(alive, pairs, strict=True))
        hits, weights = np.asarray(total) / max(sum(alive), np.finfo(np.float64).tiny)
        return hits, weights

    return Statistic(
        joint.columns, formula, joint.kinds, parts if len(shares) == len(statistics) else None
    )


def pad(statistic: Statistic, start: int, size: int) -> Statistic:
    """Statistic on a larger set of `size` examples, of which its own are those from `start` on.

    The other examples add nothing to it.
    """
    stop = start + statistic.examples
    if statistic.kinds is None:
        columns = np.zeros((size, statistic.columns.shape[1]))
        columns[start:stop] = statistic.columns
        kinds = None
    else:
        columns = np.vstack([statistic.columns, np.zeros((1, statistic.columns.shape[1]))])
        kinds = np.full(size, len(statistic.columns), dtype=np.int64)
        kinds[start:stop] = statistic.kinds
    share = statistic.share
    if share is None:
        return Statistic(columns, statistic.formula, kinds)

    def parts() -> tuple[FloatArray, FloatArray]:
        hits, weights = (np.pad(part, (start, size - stop)) for part in share())
        return hits, weights

    return Statistic(columns, statistic.formula, kinds, parts)


def renumber(codes: IntArray, size: int) -> tuple[IntArray, int]:
    """Renumber codes in 0 … size − 1 without gaps, order kept; also returns their number."""
    if size > 4 * len(codes) + 1_000_000:
        distinct, codes = np.unique(codes, return_inverse=True)
        return codes, len(distinct)
    used = np.bincount(codes, minlength=size) > 0
    return (codes if used.all() else (np.cumsum(used) - 1)[codes]), int(used.sum())


def _common_kinds(
    statistics: Sequence[Statistic],
) -> tuple[IntArray | None, list[IntArray | None]]:
    """Common refinement of the statistics' kinds, and the row of each statistic for each kind."""
    first = statistics[0].kinds
    if all(s.kinds is first for s in statistics):
        return first, [None] * len(statistics)
    given = [s.kinds for s in statistics if s.kinds is not None]
    if len(given) < len(statistics):
        return None, [s.kinds for s in statistics]
    kinds: IntArray = np.zeros(statistics[0].examples, dtype=np.int64)
    size = 1
    for statistic, codes in zip(statistics, given, strict=True):
        rows = len(statistic.columns)
        kinds, size = renumber(kinds * rows + codes, size * rows)
    an_example = np.zeros(size, dtype=np.int64)
    an_example[kinds] = np.arange(len(kinds))
    return kinds, [codes[an_example] for codes in given]
