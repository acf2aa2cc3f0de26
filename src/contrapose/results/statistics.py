"""Statistics of measures, which can be resampled: functions of totals, and rank statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import numpy as np

from contrapose import metrics
from contrapose.metrics import BoolArray, FloatArray, IntArray, RankStatistic, Statistic
from contrapose.metrics.statistics.bootstrap import run_tasks
from contrapose.metrics.statistics.ranks import lift, mean_of_ranks
from contrapose.results.measures import Better, DerivedMetric, Grouping, Measure, Measurements

RANKED = ("auroc", "spearman", "kendall", "pairwise", "pairwise_same")
"""Kinds of derived metrics that compare units with each other: no functions of totals."""

STANDARDIZED = ("std", "mean_abs")
"""Kinds of derived metrics that are in standard deviations of the scores."""


def build_statistics(measured: Measurements, over: Grouping | None = None) -> dict[str, Statistic]:
    """Build the statistic of every metric, so that it can be resampled."""
    tasks: dict[str, Callable[[], Statistic]] = {
        name: partial(mean_statistic, measure, measure.values, over)
        for name, measure in measured.measures.items()
        if measure.shown and measure.where.any()
    }
    for name, derived in measured.derived.items():
        build = OF_UNITS.get(derived.kind, _derived_statistic)
        if derived.kind in OF_UNITS:
            defined = bool(measured.measures[derived.sources[0]].where.any())
        else:
            defined = derived.kind not in RANKED and tasks.keys() >= {*derived.sources}
        if defined:
            tasks[name] = partial(build, measured, derived, over)
    built = dict(zip(tasks, run_tasks(list(tasks.values()), len(measured)), strict=True))
    pearson = [name for name, derived in measured.derived.items() if derived.kind == "pearson"]
    undefined = [name for name in pearson if name in built and math.isnan(built[name].value())]
    return {name: statistic for name, statistic in built.items() if name not in undefined}


def build_rank_statistics(
    measured: Measurements, over: Grouping | None = None
) -> dict[str, RankStatistic]:
    """Build the statistic of every metric that compares units with each other, where defined."""
    names = ranked_names(measured)
    built = run_tasks(
        [partial(build_rank_statistic, measured, name, over) for name in names], len(measured)
    )
    return {name: one for name, one in zip(names, built, strict=True) if one is not None}


def ranked_names(measured: Measurements) -> list[str]:
    """Names of the metrics that compare units with each other."""
    return [name for name, derived in measured.derived.items() if derived.kind in RANKED]


def build_rank_statistic(
    measured: Measurements, name: str, over: Grouping | None = None
) -> RankStatistic | None:
    """Build the statistic of a metric that compares units with each other; None if undefined."""
    derived = measured.derived[name]
    if derived.kind == "auroc":
        scores, present = auroc_scores(measured, name)
        groups = None if over is None else over.codes
        statistic = metrics.auroc_statistic(scores, groups, present=present, chance=derived.chance)
    else:
        statistic = _rating_statistic(measured, derived, over)
    return None if math.isnan(statistic.value()) else statistic


def _rating_statistic(
    measured: Measurements, derived: DerivedMetric, over: Grouping | None
) -> RankStatistic:
    """Agreement of scores with ratings; of groups, the mean of theirs."""
    scores, ratings = (measured.measures[name] for name in derived.sources)
    build = _RATING_STATISTICS[derived.kind]
    where = scores.where & ratings.where
    masks = [where]
    if over is not None:
        masks = [where & (over.codes == group) for group in range(len(over.names))]
    parts = []
    for mask in masks:
        members = np.flatnonzero(mask)
        clusters = None if measured.clusters is None else measured.clusters[members]
        statistic = build(scores.values[members], ratings.values[members], clusters)
        parts.append(lift(statistic, members, len(measured)))
    return parts[0] if over is None else mean_of_ranks(parts)


def _pairwise_statistic(
    scores: FloatArray, ratings: FloatArray, clusters: IntArray | None
) -> RankStatistic:
    """Pairwise accuracy with ties calibrated on other clusters; on the same pairs with too few."""
    calibration = metrics.calibrate_ties(scores, ratings, clusters)
    if calibration is None:
        return _pairwise_same_statistic(scores, ratings, clusters)
    return metrics.pairwise_statistic(scores, ratings, calibration)


def _pairwise_same_statistic(
    scores: FloatArray, ratings: FloatArray, clusters: IntArray | None
) -> RankStatistic:
    if len(scores) < 2:
        return _undefined_statistic(len(scores))
    threshold, _ = metrics.tie_threshold(scores, ratings)
    return metrics.pairwise_statistic(scores, ratings, threshold)


def _undefined_statistic(size: int) -> RankStatistic:
    def undefined(totals: FloatArray) -> FloatArray:
        return np.full(len(totals), np.nan)

    return RankStatistic(
        size,
        lambda codes, units: undefined,
        lambda units: 1,
        share=True,
        linear=lambda: Statistic(np.ones((size, 1)), undefined),
        projected=lambda units: True,
    )


_RATING_STATISTICS: dict[
    str, Callable[[FloatArray, FloatArray, IntArray | None], RankStatistic]
] = {
    "spearman": lambda scores, ratings, clusters: metrics.spearman_statistic(scores, ratings),
    "kendall": lambda scores, ratings, clusters: metrics.kendall_statistic(scores, ratings),
    "pairwise": _pairwise_statistic,
    "pairwise_same": _pairwise_same_statistic,
}


def statistic_interval(
    statistic: Statistic | RankStatistic,
    clusters: IntArray | None,
    *,
    resamples: int,
    seed: int,
) -> tuple[float, float]:
    """Interval of a statistic of either kind; (NaN, NaN) where there is none."""
    if isinstance(statistic, RankStatistic):
        return metrics.rank_interval(statistic, clusters=clusters, resamples=resamples, seed=seed)
    return metrics.intervals([statistic], clusters=clusters, resamples=resamples, seed=seed)[0]


def count_units(measured: Measurements, name: str) -> int:
    """Number of units that a metric is defined on."""
    masks = [measured.measures[source].where for source in metric_sources(measured, name)]
    return int(np.logical_or.reduce(masks).sum())


def is_share(measured: Measurements, name: str) -> bool:
    """Whether a metric is a share, of units or of pairs of them, to be written as a percentage."""
    if name in measured.derived and measured.derived[name].kind in RANKED:
        return measured.derived[name].kind not in ("spearman", "kendall")
    return _is_share(measured.measures[metric_sources(measured, name)[0]])


def better_direction(measured: Measurements, name: str) -> Better | None:
    """Direction that is better, of a derived metric that of its first source; None for neither."""
    return measured.measures[metric_sources(measured, name)[0]].better


def measure_of(measured: Measurements, name: str) -> Measure | None:
    """Measure that a metric sums up; None for averages, minima and areas, which have several."""
    if name in measured.derived and measured.derived[name].kind not in STANDARDIZED:
        return None
    return measured.measures[metric_sources(measured, name)[0]]


def _is_share(measure: Measure) -> bool:
    return measure.share or measure.ties is not None or measure.chance is not None


def mean_statistic(measure: Measure, values: FloatArray, over: Grouping | None) -> Statistic:
    """Mean of values of a measure's units, weighted and grouped as the measure is."""
    if over is not None:
        codes = np.where(measure.where, over.codes, -1)
        return metrics.macro_mean(values, codes, over.parents, share=_is_share(measure))
    weights = measure.where.astype(np.float64)
    return metrics.mean_of(
        values,
        weights if measure.weights is None else weights * measure.weights,
        share=_is_share(measure) or None,  # outcomes of 0 and 1 are a share in any case
    )


def mean_value(measure: Measure, values: FloatArray | BoolArray, over: Grouping | None) -> float:
    """Value of `mean_statistic`; of truth values and of equal numbers by counting alone."""
    count = int(np.count_nonzero(measure.where))
    if over is None and measure.weights is None and count:
        if values.dtype == np.bool_:
            return int(np.count_nonzero(np.logical_and(values, measure.where))) / count
        if (values == values[0]).all():
            return count * float(values[0]) / count
    return mean_statistic(measure, values.astype(np.float64), over).value()


def _derived_statistic(
    measured: Measurements, derived: DerivedMetric, over: Grouping | None
) -> Statistic:
    sources = [measured.measures[name] for name in derived.sources]
    if derived.kind == "average":
        return metrics.combine([mean_statistic(source, source.values, over) for source in sources])
    one, other = (source.values for source in sources)
    if over is None:
        return metrics.minimum_of_means(one, other)
    return metrics.combine(
        [
            metrics.minimum_of_means(one, other, weights=(over.codes == group).astype(np.float64))
            for group in range(len(over.names))
        ]
    )


def _calibration_statistic(
    measured: Measurements, derived: DerivedMetric, over: Grouping | None
) -> Statistic:
    """Calibration error; of groups, the mean of theirs."""
    probability, truth = (measured.measures[name] for name in derived.sources)
    masks = [probability.where]
    if over is not None:
        masks = [probability.where & (over.codes == group) for group in range(len(over.names))]
    return metrics.combine(
        [
            metrics.calibration_error(probability.values, truth.values, mask.astype(np.float64))
            for mask in masks
            if mask.any()
        ]
    )


def _pearson_statistic(
    measured: Measurements, derived: DerivedMetric, over: Grouping | None
) -> Statistic:
    """Pearson's correlation of scores with ratings; of groups, the mean of theirs."""
    scores, ratings = (measured.measures[name] for name in derived.sources)
    where = scores.where & ratings.where
    masks = [where]
    if over is not None:
        masks = [where & (over.codes == group) for group in range(len(over.names))]
    return metrics.combine(
        [
            metrics.correlation_of(scores.values, ratings.values, mask.astype(np.float64))
            for mask in masks
        ]
    )


def _standardized_statistic(
    measured: Measurements, derived: DerivedMetric, over: Grouping | None
) -> Statistic:
    """Spread in standard deviations of the scores; of groups, the mean of each by its own."""
    kind: Literal["std", "mean_abs"] = "std" if derived.kind == "std" else "mean_abs"
    sources = [measured.measures[name] for name in derived.sources]
    values, means, variances = (source.values for source in sources)
    where = np.logical_and.reduce([source.where for source in sources])
    if over is None:
        return metrics.standardized_spread(values, means, variances, kind, where)
    parents: dict[int, list[Statistic]] = {}
    for group, parent in enumerate(over.parents):
        inside = where & (over.codes == group)
        if inside.any():
            spread = metrics.standardized_spread(values, means, variances, kind, inside)
            parents.setdefault(parent, []).append(spread)
    return metrics.combine([metrics.combine(groups) for groups in parents.values()])


OF_UNITS: Mapping[str, Callable[[Measurements, DerivedMetric, Grouping | None], Statistic]] = {
    "std": _standardized_statistic,
    "mean_abs": _standardized_statistic,
    "calibration": _calibration_statistic,
    "pearson": _pearson_statistic,
}
"""Builders of the derived metrics that are sums over units, not functions of the sources' means."""


def metric_sources(measured: Measurements, name: str) -> tuple[str, ...]:
    """Measures that a metric is made of."""
    return measured.derived[name].sources if name in measured.derived else (name,)


def auroc_scores(measured: Measurements, name: str) -> tuple[FloatArray, BoolArray | None]:
    """Scores (k, 2) of right and wrong captions of an AUROC; also which of the two units have."""
    sources = [measured.measures[source] for source in measured.derived[name].sources]
    where = np.stack([source.where for source in sources], axis=1)
    scores = np.stack([source.values for source in sources], axis=1)
    return scores, None if where.all() else where
