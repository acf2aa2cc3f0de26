"""Several statistics on the same examples, resampled together or averaged into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.errors import InputError
from contrapose.metrics.statistics.statistic import Formula, Statistic, divide
from contrapose.metrics.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Statistics on the same examples, with the columns they have in common kept once.

    Attributes:
        columns: as in `Statistic`, for all of them.
        kinds: as in `Statistic`.
        formulas: each statistic's formula.
        places: the columns that each formula takes.
    """

    columns: FloatArray
    kinds: IntArray | None
    formulas: tuple[Formula, ...]
    places: tuple[IntArray, ...]

    def values(self, totals: FloatArray) -> list[FloatArray]:
        """Each statistic's values (r,) from the joint totals (r, c)."""
        return [
            formula(totals[:, place])
            for formula, place in zip(self.formulas, self.places, strict=True)
        ]


def join(statistics: Sequence[Statistic]) -> Joint:
    """Put statistics on the same examples side by side.

    Raises:
        InputError: there are none, or they are not on the same number of examples.
    """
    if len({s.examples for s in statistics}) != 1:
        counts = ", ".join(str(s.examples) for s in statistics) or "none"
        raise InputError(f"statistics to combine must share their examples; they have {counts}.")
    kinds, rows = _common_kinds(statistics)
    kept: dict[bytes, int] = {}
    columns: list[FloatArray] = []
    places: list[IntArray] = []
    for statistic, row in zip(statistics, rows, strict=True):
        block = statistic.columns if row is None else statistic.columns[row]
        place = []
        for column in block.T:
            name = column.tobytes()
            if name not in kept:
                kept[name] = len(columns)
                columns.append(column)
            place.append(kept[name])
        places.append(np.array(place, dtype=np.int64))
    formulas = tuple(statistic.formula for statistic in statistics)
    return Joint(np.stack(columns, axis=1), kinds, formulas, tuple(places))


def combine(statistics: Sequence[Statistic], weights: Sequence[float] | None = None) -> Statistic:
    """The (weighted) mean of statistics on the same examples, in the same order.

    Those that are NaN in a resample are left out of its mean.

    Raises:
        InputError: there are none, their examples or the weights do not fit.
    """
    share = np.ones(len(statistics)) if weights is None else np.asarray(weights, dtype=np.float64)
    if len(share) != len(statistics):
        raise InputError(f"{len(statistics)} statistics but {len(share)} weights.")
    joint = join(statistics)

    def formula(totals: FloatArray) -> FloatArray:
        parts = np.stack(joint.values(totals), axis=1)
        alive = ~np.isnan(parts)
        numerator = (np.where(alive, parts, 0.0) * share).sum(axis=1)
        return divide(numerator, (alive * share).sum(axis=1))

    return Statistic(joint.columns, formula, joint.kinds)


def renumber(codes: IntArray, size: int) -> tuple[IntArray, int]:
    """Codes in 0 … size − 1 renumbered without gaps, order kept, and how many there are."""
    if size > 4 * len(codes) + 1_000_000:
        distinct, codes = np.unique(codes, return_inverse=True)
        return codes, len(distinct)
    used = np.bincount(codes, minlength=size) > 0
    return (np.cumsum(used) - 1)[codes], int(used.sum())


def _common_kinds(
    statistics: Sequence[Statistic],
) -> tuple[IntArray | None, list[IntArray | None]]:
    """Kinds fine enough for all statistics, and which row of each statistic they are."""
    first = statistics[0].kinds
    if all(s.kinds is first for s in statistics):
        return first, [None] * len(statistics)
    given = [s.kinds for s in statistics if s.kinds is not None]
    if len(given) < len(statistics):
        return None, [s.kinds for s in statistics]
    kinds: IntArray = np.zeros(statistics[0].examples, dtype=np.int64)
    size = 1
    for statistic, own in zip(statistics, given, strict=True):
        rows = len(statistic.columns)
        kinds, size = renumber(kinds * rows + own, size * rows)
    an_example = np.zeros(size, dtype=np.int64)
    an_example[kinds] = np.arange(len(kinds))
    return kinds, [own[an_example] for own in given]
