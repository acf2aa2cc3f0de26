"""From per-example outcomes to results: values, intervals, chance, ties, parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrapose import metrics
from contrapose.data import Card, Macro
from contrapose.metrics import FloatArray, Statistic
from contrapose.results.groups import Grouping, grouping, parts
from contrapose.results.measured import Derived, Measure, Measured
from contrapose.results.schema import MetricValue

RESAMPLES = 10_000


def headline(
    measured: Measured, card: Card, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[dict[str, MetricValue], tuple[str, ...]]:
    """The benchmark's own aggregation under the plain names, the other one beside it.

    Returns:
        The metrics, and what a reader should know of how they were added up.
    """
    micro = summarise(measured, resamples=resamples, seed=seed)
    aggregation = card.aggregation
    over = grouping(measured, aggregation if isinstance(aggregation, Macro) else Macro("subset"))
    if over is None:
        note = (
            f"the headline of {card.name} is a mean over its {aggregation.tag} values, which the "
            "score file does not name: these are means over examples; --root DIR gives the other"
            if isinstance(aggregation, Macro)
            else ""
        )
        return micro, (note,) if note else ()
    if not isinstance(aggregation, Macro) and len(over.names) < 2:
        return micro, ()  # the mean over one group says nothing more
    macro = summarise(measured, over=over, resamples=resamples, seed=seed)
    if isinstance(aggregation, Macro):
        return {**macro, **_beside(micro, macro, "micro")}, ()
    return {**micro, **_beside(macro, micro, "macro")}, ()


def breakdown(
    measured: Measured, card: Card, by: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, dict[str, MetricValue]]:
    """The metrics of every part, and of the groups of parts that the paper counts as one."""
    found = {
        name: summarise(measured.take(positions), resamples=resamples, seed=seed)
        for name, positions in parts(measured, by).items()
    }
    aggregation = card.aggregation
    if isinstance(aggregation, Macro) and aggregation.tag in by:
        values = np.array([str(value) for value in measured.tags[aggregation.tag]])
        for group, members in aggregation.groups.items():
            inside = measured.take(np.flatnonzero(np.isin(values, members)))
            over = grouping(inside, Macro(aggregation.tag)) if len(inside) else None
            if over is not None:
                found[group] = summarise(inside, over=over, resamples=resamples, seed=seed)
    return found


def summarise(
    measured: Measured, *, over: Grouping | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, MetricValue]:
    """Every metric of these units, with its interval: over the units, or over group means.

    Metrics that are defined for none of the units are left out, and so are those of which group
    means make no sense.
    """
    statistics = statistics_of(measured, over)
    bounds = metrics.intervals(
        list(statistics.values()), clusters=measured.clusters, resamples=resamples, seed=seed
    )
    found = {
        name: MetricValue(
            value=each.value(),
            ci95=ci95,
            n=counted(measured, name),
            chance=_chance(measured, name, over),
            ties=_ties(measured, name, over),
        )
        for (name, each), ci95 in zip(statistics.items(), bounds, strict=True)
    }
    for name, derived in measured.derived.items():
        if derived.kind == "auroc":
            found[name] = _auroc(measured, derived, over, resamples, seed)
    return found


def statistics_of(measured: Measured, over: Grouping | None = None) -> dict[str, Statistic]:
    """Every metric as a function of what each unit adds, so that it can be resampled."""
    found = {
        name: _statistic(measure, over)
        for name, measure in measured.measures.items()
        if measure.shown and measure.where.any() and (over is None or measure.grouped)
    }
    for name, derived in measured.derived.items():
        if derived.kind != "auroc" and all(source in found for source in derived.sources):
            found[name] = _derived(measured, derived, over)
    return found


def counted(measured: Measured, name: str) -> int:
    """How many units a metric is of."""
    sources = _sources(measured, name)
    return int(np.logical_or.reduce([measured.measures[each].where for each in sources]).sum())


def is_share(measured: Measured, name: str) -> bool:
    """Whether a metric is a share of the units."""
    measure = measured.measures[_sources(measured, name)[0]]
    return measure.ties is not None or measure.chance is not None


def _statistic(measure: Measure, over: Grouping | None) -> Statistic:
    if measure.summary == "std":
        return metrics.standard_deviation(measure.values)
    return _mean(measure, measure.values, over)


def _mean(measure: Measure, values: FloatArray, over: Grouping | None) -> Statistic:
    """The mean of values of a measure's units, weighted and grouped as the measure is."""
    if over is not None:
        codes = np.where(measure.where, over.codes, -1)
        return metrics.macro_mean(values, codes, over.parents)
    weights = measure.where.astype(np.float64)
    return metrics.mean_of(
        values, weights if measure.weights is None else weights * measure.weights
    )


def _derived(measured: Measured, derived: Derived, over: Grouping | None) -> Statistic:
    sources = [measured.measures[name] for name in derived.sources]
    if derived.kind == "average":
        return metrics.combine([_statistic(source, over) for source in sources])
    one, other = (source.values for source in sources)
    if over is None:
        return metrics.minimum_of_means(one, other)
    return metrics.combine(
        [
            metrics.minimum_of_means(one, other, weights=(over.codes == group).astype(np.float64))
            for group in range(len(over.names))
        ]
    )


def _chance(measured: Measured, name: str, over: Grouping | None) -> float | None:
    if name in measured.derived and measured.derived[name].kind != "average":
        return measured.derived[name].chance
    levels = []
    for source in _sources(measured, name):
        measure = measured.measures[source]
        if measure.chance is None:
            return None
        levels.append(_mean(measure, measure.chance, over).value())
    return float(np.mean(levels))


def _ties(measured: Measured, name: str, over: Grouping | None) -> float | None:
    """The tie rate, added up as the metric is; of a derived number, that of any source."""
    sources = [measured.measures[source] for source in _sources(measured, name)]
    if any(source.ties is None for source in sources):
        return None
    tied = [source.ties for source in sources if source.ties is not None]
    return _mean(sources[0], np.logical_or.reduce(tied).astype(np.float64), over).value()


def _auroc(
    measured: Measured, derived: Derived, over: Grouping | None, resamples: int, seed: int
) -> MetricValue:
    """AUROC is no function of sums: it has its own bootstrap."""
    scores = np.stack([measured.measures[name].values for name in derived.sources], axis=1)
    groups = None if over is None else over.codes
    ci95 = metrics.auroc_interval(
        scores, groups, clusters=measured.clusters, resamples=resamples, seed=seed
    )
    value = metrics.auroc(scores, groups)
    return MetricValue(value=value, ci95=ci95, n=len(scores), chance=derived.chance, ties=None)


def _beside(
    other: dict[str, MetricValue], first: dict[str, MetricValue], suffix: str
) -> dict[str, MetricValue]:
    """The other aggregation's metrics that differ, after those that only it has."""
    alone = {name: value for name, value in other.items() if name not in first}
    differs = {
        f"{name}_{suffix}": value
        for name, value in other.items()
        if name in first and value.value != first[name].value
    }
    return {**alone, **differs}


def _sources(measured: Measured, name: str) -> tuple[str, ...]:
    return measured.derived[name].sources if name in measured.derived else (name,)
