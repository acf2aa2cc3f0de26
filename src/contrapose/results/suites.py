"""Suites: parts of different shapes, each measured by its own card, then laid side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from contrapose import metrics
from contrapose.data import Card, Macro
from contrapose.metrics import IntArray, Statistic
from contrapose.results.evaluate import RESAMPLES, statistics_of
from contrapose.results.groups import grouping
from contrapose.results.measured import Derived, Measure, Measured
from contrapose.results.schema import MetricValue

AVERAGE = "average"

MAIN: Mapping[str, str] = {
    "choice": "accuracy",
    "pairs": "group",
    "images": "image",
    "triple": "augmented_accuracy",
    "foil": "pairwise_accuracy",
}
"""The metric that stands for a part in its suite's average, by family.

Recall in a gallery and edit queries are no choice among a few: they stand beside the average.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One part of a suite: its card, and the outcome of every example."""

    card: Card
    measured: Measured


def merged(parts: Mapping[str, Part]) -> Measured:
    """All parts as one: units `part/id`, measures `part/metric`, and the average of the main ones.

    Clusters of different parts stay apart: a part's examples are drawn for that part alone.
    """
    ids: list[str] = []
    clusters: list[IntArray] = []
    measures: dict[str, Measure] = {}
    mains: list[str] = []
    total = sum(len(part.measured) for part in parts.values())
    start = taken = 0
    for name, part in parts.items():
        size = len(part.measured)
        own = part.measured.clusters
        codes = np.arange(size) if own is None else np.unique(own, return_inverse=True)[1]
        clusters.append(codes.reshape(-1) + taken)
        taken += size
        ids += [f"{name}/{unit}" for unit in part.measured.ids]
        for metric, measure in part.measured.measures.items():
            if measure.summary == "std":  # a spread over all parts' units would mean nothing
                continue
            measures[f"{name}/{metric}"] = _spread(measure, start, total)
        main = MAIN.get(part.card.family)
        if main in part.measured.measures:
            mains.append(f"{name}/{main}")
        start += size
    tags = {"part": tuple(name for name, part in parts.items() for _ in range(len(part.measured)))}
    notes = tuple(f"{name}: {note}" for name, part in parts.items() for note in part.measured.notes)
    derived = {AVERAGE: Derived("average", tuple(mains))} if mains else {}
    return Measured(tuple(ids), tags, np.concatenate(clusters), measures, derived, notes)


def average(
    parts: Mapping[str, Part], whole: Measured, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, MetricValue]:
    """The mean over the parts of their main metric, each added up as its own card says."""
    found: list[Statistic] = []
    chances: list[float | None] = []
    ties: list[float] = []
    start = counted = 0
    for name, part in parts.items():
        size = len(part.measured)
        main = MAIN.get(part.card.family)
        if main in part.measured.measures:
            measure = whole.measures[f"{name}/{main}"]
            statistic = _main(part, measure, start, len(whole))
            found.append(statistic)
            inside = measure.where
            chances.append(None if measure.chance is None else float(measure.chance[inside].mean()))
            ties.append(0.0 if measure.ties is None else float(measure.ties[inside].mean()))
            counted += int(inside.sum())
        start += size
    if not found:
        return {}
    mean = metrics.combine(found)
    (ci95,) = metrics.intervals([mean], clusters=whole.clusters, resamples=resamples, seed=seed)
    levels = [level for level in chances if level is not None]
    return {
        AVERAGE: MetricValue(
            value=mean.value(),
            ci95=ci95,
            n=counted,
            chance=float(np.mean(levels)) if len(levels) == len(chances) else None,
            ties=float(np.mean(ties)),
        )
    }


def _main(part: Part, measure: Measure, start: int, total: int) -> Statistic:
    """A part's main metric as a function of all units of the suite."""
    aggregation = part.card.aggregation
    over = grouping(part.measured, aggregation) if isinstance(aggregation, Macro) else None
    if over is not None:
        codes = np.full(total, -1, dtype=np.int64)
        codes[start : start + len(part.measured)] = over.codes
        over = replace(over, codes=codes)
    alone = Measured(("",) * total, {}, None, {"main": measure})
    return statistics_of(alone, over)["main"]


def _spread(measure: Measure, start: int, total: int) -> Measure:
    """A measure of some of the units as one of all of them."""
    inside = slice(start, start + len(measure.values))

    def wide(values: metrics.FloatArray) -> metrics.FloatArray:
        spread = np.zeros(total, dtype=values.dtype)
        spread[inside] = values
        return spread

    where = np.zeros(total, dtype=np.bool_)
    where[inside] = measure.where
    ties = None
    if measure.ties is not None:
        ties = np.zeros(total, dtype=np.bool_)
        ties[inside] = measure.ties
    return replace(
        measure,
        values=wide(measure.values),
        where=where,
        ties=ties,
        chance=None if measure.chance is None else wide(measure.chance),
        weights=None if measure.weights is None else wide(measure.weights),
    )
