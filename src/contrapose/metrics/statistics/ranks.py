"""Rank statistics: those that compare examples with each other, so that no sums tell them.

The area under the ROC curve, rank correlations and shares of pairs depend on all examples at once.
A resample is given by how often each unit (an example, or a cluster of examples) is drawn, and a
`RankStatistic` computes its value from these counts.

Of very many examples that is dear, and nearly linear: the statistic differs from its projection on
single examples (Hájek, Asymptotic normality of simple linear rank statistics, 1968; of the AUROC,
the placement values of DeLong, DeLong and Clarke-Pearson, 1988) by a share of about 1 / √units of a
standard error. The projection is a function of totals, which is resampled as all others are. Where
it is not known to be near, a few resamples are drawn in both ways, and it is used only if they
differ by at most `MOST_RESIDUAL` standard errors (root mean square).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.statistics.bootstrap import (
    BLOCK,
    RESAMPLES,
    joint_replicates,
    limit_resamples,
    map_blocks,
    percentile_interval,
)
from contrapose.metrics.statistics.limit import LIMIT_FROM
from contrapose.metrics.statistics.resampling import cluster_codes, draw_counts, sum_units
from contrapose.metrics.statistics.shares import (
    FEWEST_UNITS,
    NO_INTERVAL,
    clopper_pearson,
    effective_units,
)
from contrapose.metrics.statistics.statistic import Statistic, combine, divide
from contrapose.metrics.types import BoolArray, FloatArray, IntArray, require_shape, widen

MANY_EXAMPLES = 100_000
"""Examples from which on a rank statistic is resampled by its projection, if that is near; as from
`LIMIT_FROM` units on."""

MOST_RESIDUAL = 0.05
"""Difference from the projection up to which it is used, in standard errors."""

TRIALS = 8
"""Resamples on which it is compared with the statistic."""

UnitFormula = Callable[[FloatArray], FloatArray]
"""From how often each unit is drawn (r, u), one row a resample, to values (r,)."""


@dataclass(frozen=True, slots=True, eq=False)
class RankStatistic:
    """Statistic that is computed from how often each unit is drawn.

    Attributes:
        examples: number of examples.
        bind: from the unit of each example, (k,) codes, and the number of units to the formula.
        work: from the number of units to what a resample costs, in draws of one unit.
        share: whether it is a share of examples or of pairs of them.
        chance: chance level; None where guessing has no meaning.
        linear: its projection on single examples, of the same value; None where there is none.
        projected: from the number of units to whether `bind` gives a projection, too.
    """

    examples: int
    bind: Callable[[IntArray, int], UnitFormula]
    work: Callable[[int], int]
    share: bool = False
    chance: float | None = field(default=None, kw_only=True)
    linear: Callable[[], Statistic] | None = field(default=None, kw_only=True)
    projected: Callable[[int], bool] = field(default=lambda units: False, kw_only=True)
    _known: list[float] = field(default_factory=list, init=False, repr=False)

    def value(self) -> float:
        """Value of the statistic; NaN where it is not defined."""
        if not self.examples:
            return float("nan")
        if not self._known:
            formula = self.bind(np.zeros(self.examples, dtype=np.int64), 1)
            self._known.append(float(formula(np.ones((1, 1)))[0]))
        return self._known[0]


def rank_replicates(
    statistic: RankStatistic,
    *,
    clusters: IntArray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> FloatArray:
    """Bootstrap replicates of a rank statistic; empty with fewer than `FEWEST_UNITS` units.

    Statistics of the same number of examples and equal work get the same resamples. Arguments are
    those of `bootstrap.replicates`.
    """
    return joint_rank_replicates([statistic], clusters=clusters, resamples=resamples, seed=seed)[0]


def joint_rank_replicates(
    statistics: Sequence[RankStatistic],
    *,
    clusters: IntArray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[FloatArray]:
    """Bootstrap replicates of rank statistics of the same examples, in the same resamples."""
    codes, units = cluster_codes(clusters, statistics[0].examples)
    if units < FEWEST_UNITS:
        return [np.empty(0) for _ in statistics]
    projections = [_find_projection(one, codes, units, seed) for one in statistics]
    linear = [projection for projection in projections if projection is not None]
    if len(linear) == len(statistics):
        drawn = joint_replicates(linear, clusters=codes, resamples=resamples, seed=seed)
        return [
            np.clip(values, 0.0 if one.share else -1.0, 1.0)
            for one, values in zip(statistics, drawn, strict=True)
        ]
    return [_draw_ranks(one, codes, units, resamples, seed) for one in statistics]


def _draw_ranks(
    statistic: RankStatistic, codes: IntArray | None, units: int, resamples: int, seed: int
) -> FloatArray:
    """Replicates from how often each unit is drawn."""
    formula = statistic.bind(np.arange(units) if codes is None else codes, units)
    work = max(1, statistic.work(units))
    blocks = map_blocks(
        lambda rng, rows: formula(draw_counts(rng, units, rows).astype(np.float64)),
        rows=BLOCK // work,
        resamples=limit_resamples(work, resamples),
        seed=seed,
    )
    return np.concatenate(blocks)


def _find_projection(
    statistic: RankStatistic, codes: IntArray | None, units: int, seed: int
) -> Statistic | None:
    """Projection of a statistic of very many examples; None where it is not used."""
    if statistic.linear is None or not (units >= LIMIT_FROM or statistic.examples >= MANY_EXAMPLES):
        return None
    linear = statistic.linear()
    if statistic.projected(units):
        return linear
    formula = statistic.bind(np.arange(units) if codes is None else codes, units)
    (summed,) = sum_units([linear], codes)

    def draw(rng: np.random.Generator, rows: int) -> FloatArray:
        counts = draw_counts(rng, units, rows).astype(np.float64)
        return np.stack([formula(counts), linear.formula(counts @ summed.columns)])

    rows = BLOCK // max(1, statistic.work(units))
    blocks = map_blocks(draw, rows=rows, resamples=TRIALS, seed=seed)
    exact, projected = np.concatenate(blocks, axis=1)
    residual = float(np.sqrt(np.mean((exact - projected) ** 2)))
    return linear if residual <= MOST_RESIDUAL * float(projected.std()) else None


def rank_interval(
    statistic: RankStatistic,
    *,
    clusters: IntArray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of a rank statistic; examples, or clusters of them, are drawn together.

    A share of 0 or 1, and one of few examples, gets the exact interval of so many units. (NaN, NaN)
    where the statistic is not defined, with fewer than `FEWEST_UNITS` clusters, and for a
    correlation that is perfect or of few examples. Arguments are those of `bootstrap.replicates`.
    """
    codes, units = cluster_codes(clusters, statistic.examples)
    value = statistic.value()
    if np.isnan(value) or (codes is not None and units < FEWEST_UNITS):
        return NO_INTERVAL
    if statistic.share and (units < FEWEST_UNITS or value in (0.0, 1.0)):
        sizes = np.ones(units) if codes is None else np.bincount(codes).astype(np.float64)
        n = effective_units(sizes)
        return clopper_pearson(n * value, n, level)
    if abs(value) == 1:
        return NO_INTERVAL
    drawn = rank_replicates(statistic, clusters=clusters, resamples=resamples, seed=seed)
    return percentile_interval(drawn, level)


def lift(statistic: RankStatistic, members: IntArray, examples: int) -> RankStatistic:
    """Statistic of some examples as one of all of them; the others do not count."""
    project = statistic.linear

    def linear(project: Callable[[], Statistic]) -> Statistic:
        inner = project()
        columns = np.zeros((inner.columns.shape[1], examples))
        columns[:, members] = inner.columns.T
        return Statistic(columns.T, inner.formula)

    return RankStatistic(
        examples,
        lambda codes, units: statistic.bind(codes[members], units),
        statistic.work,
        statistic.share,
        chance=statistic.chance,
        linear=None if project is None else partial(linear, project),
        projected=statistic.projected,
    )


def mean_of_ranks(statistics: Sequence[RankStatistic]) -> RankStatistic:
    """Mean of rank statistics of the same examples; those that are NaN in a resample are left out.

    Raises:
        InputError: there are none.
    """
    if not statistics:
        raise InputError("a mean of statistics needs at least one.")
    levels = [one.chance for one in statistics if one.chance is not None]
    linear = [one.linear for one in statistics if one.linear is not None]
    if len(linear) < len(statistics):
        linear = []

    def bind(codes: IntArray, units: int) -> UnitFormula:
        formulas = [one.bind(codes, units) for one in statistics]

        def formula(counts: FloatArray) -> FloatArray:
            return _mean_of_defined(np.stack([one(counts) for one in formulas], axis=1))

        return formula

    return RankStatistic(
        statistics[0].examples,
        bind,
        lambda units: sum(one.work(units) for one in statistics),
        all(one.share for one in statistics),
        chance=float(np.mean(levels)) if len(levels) == len(statistics) else None,
        linear=(lambda: combine([one() for one in linear])) if linear else None,
        projected=lambda units: all(one.projected(units) for one in statistics),
    )


def _mean_of_defined(values: FloatArray) -> FloatArray:
    """(r,) mean over the columns that are not NaN."""
    alive = ~np.isnan(values)
    return divide(np.where(alive, values, 0.0).sum(axis=1), alive.sum(axis=1))


AUROC_WORK = 8
"""Passes over the examples that one resample of the AUROC costs, beside drawing it."""


def auroc_statistic(
    scores: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    present: BoolArray | None = None,
    chance: float | None = None,
) -> RankStatistic:
    """AUROC as a statistic; arguments are those of `auroc`."""
    pairs, parts = _rank_groups(scores, groups, present)

    def bind(codes: IntArray, units: int) -> UnitFormula:
        bound = [part.bind(codes) for part in parts]
        return lambda counts: _mean_area(bound, counts)

    return RankStatistic(
        len(pairs),
        bind,
        lambda units: AUROC_WORK * len(pairs),
        True,
        chance=chance,
        linear=(lambda: combine([part.linear(len(pairs)) for part in parts])) if parts else None,
    )


def auroc(
    scores: ArrayLike, groups: ArrayLike | None = None, *, present: BoolArray | None = None
) -> float:
    """AUROC: how often a right caption, of any example, beats a wrong one; a tie counts ½.

    The mean over all pairs of a caption and a foil, computed from ranks. Chance ½.

    Args:
        scores: (k, 2) scores of captions and of foils.
        groups: (k,) codes from 0, −1 for what is not counted; the mean over groups of the area
            within each is then given.
        present: (k, 2) which of the two an example has; None means both.
    """
    return auroc_statistic(scores, groups, present=present).value()


def auroc_interval(
    scores: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    present: BoolArray | None = None,
    clusters: IntArray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float]:
    """Interval of the AUROC; arguments are those of `auroc` and of `rank_interval`."""
    statistic = auroc_statistic(scores, groups, present=present)
    return rank_interval(statistic, clusters=clusters, resamples=resamples, seed=seed, level=level)


class _GroupRanks:
    """Examples of one group: foils sorted, and the rank of each caption among them."""

    def __init__(self, members: IntArray, pairs: FloatArray, present: BoolArray | None):
        right = wrong = members
        if present is not None:
            right, wrong = (members[present[members, side]] for side in (0, 1))
        captions, foils = pairs[right, 0], pairs[wrong, 1]
        order = np.argsort(foils)
        foils = foils[order]
        self._foils = wrong[order]
        # Captions in the order of their scores: what they beat is then read from front to back.
        order = np.argsort(captions)
        self._captions = right[order]
        self._below = np.searchsorted(foils, captions[order], side="left")
        self._not_above = np.searchsorted(foils, captions[order], side="right")
        if np.array_equal(self._below, self._not_above):
            self._not_above = self._below

    def bind(self, codes: IntArray) -> UnitFormula:
        """From how often each unit is drawn (r, u) to the AUROC of the group in each resample.

        Args:
            codes: the unit of each example.
        """
        captions, foils = codes[self._captions], codes[self._foils]
        below, not_above = self._below, self._not_above

        def area(counts: FloatArray) -> FloatArray:
            reached = np.zeros((len(counts), len(foils) + 1))
            np.cumsum(counts.take(foils, axis=1), axis=1, out=reached[:, 1:])
            beaten = reached.take(below, axis=1)
            if not_above is not below:
                beaten += reached.take(not_above, axis=1)
                beaten /= 2
            counted = counts.take(captions, axis=1)
            weight = counted.sum(axis=1) * reached[:, -1]
            return divide(np.einsum("rc,rc->r", counted, beaten), weight)

        return area

    def linear(self, examples: int) -> Statistic:
        """Projection of the area: the mean placement of captions and that of foils, less the area.

        Args:
            examples: number of all examples.
        """
        captions, foils = len(self._captions), len(self._foils)
        columns = np.zeros((4, examples))
        columns[0, self._captions] = (self._below + self._not_above) / (2 * max(1, foils))
        columns[1, self._captions] = 1.0
        rank = np.arange(foils)
        beaten_by = 2 * captions - sum(
            np.searchsorted(stops, rank, side="right") for stops in (self._below, self._not_above)
        )
        columns[2, self._foils] = beaten_by / (2 * max(1, captions))
        columns[3, self._foils] = 1.0
        area = float(columns[0].sum()) / max(1, captions)

        def formula(totals: FloatArray) -> FloatArray:
            placed, beaten = divide(totals[:, (0, 2)], totals[:, (1, 3)]).T
            return np.asarray(placed + beaten - area)

        return Statistic(columns.T, formula)


def _mean_area(parts: Sequence[UnitFormula], counts: FloatArray) -> FloatArray:
    """(r,) mean AUROC over the groups that have weight."""
    if not parts:
        return np.full(len(counts), np.nan)
    return _mean_of_defined(np.stack([area(counts) for area in parts], axis=1))


def _rank_groups(
    scores: ArrayLike, groups: ArrayLike | None, present: BoolArray | None
) -> tuple[FloatArray, list[_GroupRanks]]:
    pairs = require_shape(widen(scores), (None, 2), "scores of captions and foils")
    if groups is None:
        everything = [np.arange(len(pairs))] if len(pairs) else []
        return pairs, [_GroupRanks(positions, pairs, present) for positions in everything]
    codes = np.asarray(groups)
    if codes.shape != (len(pairs),):
        raise InputError(f"{len(pairs)} examples but {codes.shape} group codes.")
    members = (np.flatnonzero(codes == code) for code in np.unique(codes[codes >= 0]))
    return pairs, [_GroupRanks(positions, pairs, present) for positions in members]
