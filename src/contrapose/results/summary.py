"""Summaries of measures: values, intervals, chance and ties, of a benchmark, parts or a suite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from contrapose import metrics
from contrapose.arrays import find_distinct
from contrapose.data import Card, Macro
from contrapose.errors import option
from contrapose.metrics import IntArray, Statistic
from contrapose.metrics.statistics.bootstrap import run_tasks
from contrapose.results.measures import (
    ASIDE,
    DerivedMetric,
    Grouping,
    Measure,
    Measurements,
    describe_aggregation,
    group_units,
    known_interval,
    note_few_clusters,
    place_measures,
    units_by_tag,
)
from contrapose.results.schema import MetricValue
from contrapose.results.shapes import AVERAGE, find_shape
from contrapose.results.statistics import (
    STANDARDIZED,
    build_rank_statistic,
    build_statistics,
    count_units,
    mean_value,
    metric_sources,
    ranked_names,
    statistic_interval,
)

RESAMPLES = 10_000

SUITE_AGGREGATION = "mean over parts of their main metric"


def official_notes(protocol: str, cards: Iterable[Card]) -> tuple[str, ...]:
    """Note on the authors' rule of every card; none under the strict protocol."""
    if protocol == "strict":
        return ()
    known = {card.name: card for card in cards}
    return tuple(
        f"the official rule{f' of {name}' if len(known) > 1 else ''}: {_describe_rule(card)}"
        for name, card in known.items()
    )


def _describe_rule(card: Card) -> str:
    if card.official_ties == "right":
        return card.official or "a tie is right"
    return card.official or "as the strict one, ties are wrong"


def summarize_headline(
    measured: Measurements, card: Card, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[dict[str, MetricValue], tuple[str, ...]]:
    """Headline metrics: the benchmark's own aggregation, and the other one with a suffix.

    Returns:
        The metrics, and what a reader should know of how they were added up.
    """
    aggregation = card.aggregation
    over = group_units(measured, aggregation if isinstance(aggregation, Macro) else Macro("subset"))
    if over is not None and len(over.names) < 2 and not isinstance(aggregation, Macro):
        over = None  # the mean over one group says nothing more
    ways = [None] if over is None else [None, over]
    tasks = [partial(summarize, measured, over=way, resamples=resamples, seed=seed) for way in ways]
    micro, *others = run_tasks(tasks, len(measured))
    if not others:
        note = (
            f"the headline of {card.name} is a mean over its {aggregation.tag} values, which the "
            "score file does not name: these are means over examples; "
            f"{option('root', 'DIR')} gives the other"
            if isinstance(aggregation, Macro)
            else ""
        )
        return micro, (note,) if note else ()
    macro = others[0]
    if isinstance(aggregation, Macro):
        return {**macro, **_other_aggregation(micro, macro, "micro")}, ()
    return {**micro, **_other_aggregation(macro, micro, "macro")}, ()


def summarize_subsets(
    measured: Measurements,
    card: Card,
    by: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, dict[str, MetricValue]]:
    """Metrics of every subset, and of the groups of subsets that the paper counts as one."""
    units = units_by_tag(measured, by)
    tasks = [
        partial(summarize, measured.take(positions), resamples=resamples, seed=seed)
        for positions in units.values()
    ]
    subsets = dict(zip(units, run_tasks(tasks, len(measured)), strict=True))
    aggregation = card.aggregation
    if isinstance(aggregation, Macro) and aggregation.tag in by:
        values, index = find_distinct([str(value) for value in measured.tags[aggregation.tag]])
        for group, members in aggregation.groups.items():
            is_member = np.array([value in members for value in values], dtype=np.bool_)
            inside = measured.take(np.flatnonzero(is_member[index]))
            over = group_units(inside, Macro(aggregation.tag)) if len(inside) else None
            if over is not None:
                subsets[group] = summarize(inside, over=over, resamples=resamples, seed=seed)
    return subsets


def summarize(
    measured: Measurements,
    *,
    over: Grouping | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, MetricValue]:
    """Value and interval of every metric, over the units or over group means.

    Metrics that are defined for none of the units are left out.
    """
    statistics = build_statistics(measured, over)
    bounds: dict[str, tuple[float, float]] = {}

    def draw(aside: bool) -> None:
        names = [name for name in statistics if (name in ASIDE) == aside]
        drawn = metrics.intervals(
            [statistics[name] for name in names],
            clusters=measured.clusters,
            resamples=resamples,
            seed=seed,
        )
        bounds.update(zip(names, drawn, strict=True))

    def describe(name: str) -> MetricValue:
        return MetricValue(
            value=statistics[name].value(),
            ci95=None,
            n=count_units(measured, name),
            chance=_chance_level(measured, name, over),
            ties=_tie_rate(measured, name, over),
            share=all(measured.measures[one].share for one in metric_sources(measured, name)),
        )

    def describe_rank(name: str) -> MetricValue | None:
        ranked = build_rank_statistic(measured, name, over)
        if ranked is None:
            return None
        bound = statistic_interval(ranked, measured.clusters, resamples=resamples, seed=seed)
        ci95, n = known_interval(bound), count_units(measured, name)
        return MetricValue(value=ranked.value(), ci95=ci95, n=n, chance=ranked.chance)

    ranks = ranked_names(measured)[::-1]  # the last ones take longest
    tasks: list[Callable[[], MetricValue | None]] = [
        *(partial(describe_rank, name) for name in ranks),
        *(partial(draw, aside) for aside in (False, True)),
        *(partial(describe, name) for name in statistics),
    ]
    done = run_tasks(tasks, len(measured))
    values = {
        name: value.model_copy(update={"ci95": known_interval(bounds[name])})
        for name, value in zip(statistics, done[len(ranks) + 2 :], strict=True)
        if value is not None
    }
    ranked = dict(zip(ranks, done, strict=False))
    return values | {name: value for name in reversed(ranks) if (value := ranked[name])}


def _chance_level(measured: Measurements, name: str, over: Grouping | None) -> float | None:
    if name in measured.derived and measured.derived[name].kind != "average":
        return measured.derived[name].chance
    levels = []
    for source in metric_sources(measured, name):
        measure = measured.measures[source]
        if measure.chance is None:
            return None
        levels.append(mean_value(measure, measure.chance, over))
    return float(np.mean(levels))


def _tie_rate(measured: Measurements, name: str, over: Grouping | None) -> float | None:
    """Tie rate, aggregated as the metric is; of a derived metric, that of any source."""
    sources = [measured.measures[source] for source in metric_sources(measured, name)]
    if any(source.ties is None for source in sources):
        return None
    tied = [source.ties for source in sources if source.ties is not None]
    return mean_value(sources[0], np.logical_or.reduce(tied), over)


def _other_aggregation(
    other: dict[str, MetricValue], first: dict[str, MetricValue], suffix: str
) -> dict[str, MetricValue]:
    """Metrics of the other aggregation that differ, after those that only it has."""
    alone = {name: value for name, value in other.items() if name not in first}
    differs = {
        f"{name}_{suffix}": value
        for name, value in other.items()
        if name in first and value.value != first[name].value
    }
    return {**alone, **differs}


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPart:
    """Measured part of a suite, or a benchmark without parts."""

    card: Card
    measured: Measurements

    @property
    def main(self) -> str | None:
        """Metric that stands for the part in its suite's average; None where none does."""
        shape = find_shape(self.card)
        return shape.main if shape.in_average and shape.main in self.measured.measures else None


@dataclass(frozen=True, slots=True, eq=False)
class PartsSummary:
    """Summary of a benchmark: the whole, and its parts.

    Attributes:
        measured: the measures of all units.
        aggregation: how the headline adds up, in words.
        metrics: the headline.
        subsets: the metrics of every part and subset.
        notes: on the aggregation.
    """

    measured: Measurements
    aggregation: str
    metrics: dict[str, MetricValue]
    subsets: dict[str, dict[str, MetricValue]]
    notes: tuple[str, ...] = ()


def summarize_parts(
    parts: Mapping[str, MeasuredPart],
    by: Sequence[str] = (),
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> PartsSummary:
    """Summarize a benchmark, or a suite by the average of its parts' main metrics.

    Args:
        parts: by name; a benchmark without parts has the empty name.
        by: tags to break down by; none takes those of the card.
        resamples: of the bootstrap.
        seed: of the bootstrap.
    """
    if list(parts) == [""]:
        part = parts[""]
        values, subsets, notes = _aggregate(part, by, resamples=resamples, seed=seed)
        words = describe_aggregation(part.card.aggregation)
        few = note_few_clusters({"all": values, **subsets})
        return PartsSummary(part.measured, words, values, subsets, (*notes, *few))
    merged = merge_parts(parts)
    subsets = {}
    for name, part in parts.items():
        values, inner, _ = _aggregate(part, by, resamples=resamples, seed=seed)
        subsets[name] = values
        if len(inner) > 1:
            subsets |= {f"{name}/{value}": values for value, values in inner.items()}
    average = average_parts(parts, merged, resamples=resamples, seed=seed)
    few = note_few_clusters({"all": average, **subsets})
    return PartsSummary(merged, SUITE_AGGREGATION, average, subsets, few)


def headline(
    parts: Mapping[str, MeasuredPart], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, MetricValue]:
    """Headline metrics alone of a benchmark, or of a suite; see `summarize_parts`."""
    if list(parts) == [""]:
        part = parts[""]
        return summarize_headline(part.measured, part.card, resamples=resamples, seed=seed)[0]
    return average_parts(parts, merge_parts(parts), resamples=resamples, seed=seed)


def _aggregate(
    part: MeasuredPart, by: Sequence[str], *, resamples: int, seed: int
) -> tuple[dict[str, MetricValue], dict[str, dict[str, MetricValue]], tuple[str, ...]]:
    """Headline metrics of a part, metrics of its subsets, and notes on the aggregation."""
    measured, card = part.measured, part.card
    by = by or tuple(tag for tag in card.by if any(measured.tags.get(tag, ())))
    values, notes = summarize_headline(measured, card, resamples=resamples, seed=seed)
    subsets = summarize_subsets(measured, card, by, resamples=resamples, seed=seed)
    return values, subsets, notes


def merge_parts(parts: Mapping[str, MeasuredPart]) -> Measurements:
    """Merge parts: units `part/id`, measures `part/metric`, and the average of the main ones.

    Clusters of different parts stay apart: a part's examples are drawn for that part alone.
    """
    ids: list[str] = []
    clusters: list[IntArray] = []
    placed: list[tuple[slice, dict[str, Measure]]] = []
    mains: list[str] = []
    total = sum(len(part.measured) for part in parts.values())
    start = taken = 0
    for name, part in parts.items():
        size = len(part.measured)
        groups = part.measured.clusters
        codes = np.arange(size) if groups is None else np.unique(groups, return_inverse=True)[1]
        clusters.append(codes.reshape(-1) + taken)
        taken += size
        ids += [f"{name}/{unit}" for unit in part.measured.ids]
        named: dict[str, Measure] = {}
        for metric, measure in part.measured.measures.items():
            named[f"{name}/{metric}"] = measure
        placed.append((slice(start, start + size), named))
        if part.main is not None:
            mains.append(f"{name}/{part.main}")
        start += size
    tags = {"part": tuple(name for name, part in parts.items() for _ in range(len(part.measured)))}
    notes = tuple(f"{name}: {note}" for name, part in parts.items() for note in part.measured.notes)
    derived = {AVERAGE: DerivedMetric("average", tuple(mains))} if mains else {}
    for name, part in parts.items():
        for metric, spread in part.measured.derived.items():
            if spread.kind in STANDARDIZED:
                sources = tuple(f"{name}/{source}" for source in spread.sources)
                derived[f"{name}/{metric}"] = replace(spread, sources=sources)
    measures = place_measures(placed, total)
    return Measurements(tuple(ids), tags, np.concatenate(clusters), measures, derived, notes)


def average_parts(
    parts: Mapping[str, MeasuredPart],
    merged: Measurements,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, MetricValue]:
    """Mean over the parts of their main metric, each aggregated as its own card says."""
    statistics: list[Statistic] = []
    chances: list[float | None] = []
    ties: list[float] = []
    start = counted = 0
    for name, part in parts.items():
        size = len(part.measured)
        if part.main is not None:
            measure = merged.measures[f"{name}/{part.main}"]
            statistics.append(_main_statistic(part, measure, start, len(merged)))
            inside = measure.where
            chances.append(None if measure.chance is None else float(measure.chance[inside].mean()))
            ties.append(0.0 if measure.ties is None else float(measure.ties[inside].mean()))
            counted += int(inside.sum())
        start += size
    if not statistics:
        return {}
    mean = metrics.combine(statistics)
    (ci95,) = metrics.intervals([mean], clusters=merged.clusters, resamples=resamples, seed=seed)
    levels = [level for level in chances if level is not None]
    return {
        AVERAGE: MetricValue(
            value=mean.value(),
            ci95=known_interval(ci95),
            n=counted,
            chance=float(np.mean(levels)) if len(levels) == len(chances) else None,
            ties=float(np.mean(ties)),
        )
    }


def _main_statistic(part: MeasuredPart, measure: Measure, start: int, total: int) -> Statistic:
    """Statistic of a part's main metric over all units of the suite."""
    aggregation = part.card.aggregation
    over = group_units(part.measured, aggregation) if isinstance(aggregation, Macro) else None
    if over is not None:
        codes = np.full(total, -1, dtype=np.int64)
        codes[start : start + len(part.measured)] = over.codes
        over = replace(over, codes=codes)
    alone = Measurements(("",) * total, {}, None, {"main": measure})
    return build_statistics(alone, over)["main"]
