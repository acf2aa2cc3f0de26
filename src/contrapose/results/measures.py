"""Per-unit values of every metric, and the groups of units that aggregation averages over."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from contrapose.arrays import find_distinct
from contrapose.data import Aggregation, Macro, TagValue
from contrapose.errors import InputError
from contrapose.metrics import FEWEST_UNITS, BoolArray, FloatArray, IntArray, Outcome
from contrapose.metrics.statistics.statistic import renumber
from contrapose.results.schema import MetricValue

Better = Literal["higher", "lower"]

ASIDE = ("group_match", "precision", "recall", "f1")
"""Metrics beside those of the papers: resampled by themselves, and compared only where they are
named, so that they change no interval and no corrected p-value of the others."""

CORRELATIONS = ("pearson", "spearman", "kendall")
"""Metrics from −1 to 1, which are reported beside shares."""

MARGIN = "margin"
"""Name of a hidden measure: by how much a unit is wrong, negative where it is right."""


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """Measure: one metric's value for every unit (example or query).

    Attributes:
        values: k numbers, 0 or 1 for accuracies.
        where: the units it is defined for.
        ties: the units with a tied comparison; None when nothing is compared.
        chance: chance level of each unit; None when guessing has no meaning.
        weights: weight of each unit; None when all count alike.
        better: whether higher or lower is better; None when neither is.
        shown: whether it is reported, or only the source of a derived metric.
        share: whether it is a share, written in per cent, though its chance level is not known.
    """

    values: FloatArray
    where: BoolArray
    ties: BoolArray | None = None
    chance: FloatArray | None = None
    weights: FloatArray | None = None
    better: Better | None = "higher"
    shown: bool = True
    share: bool = False

    def take(self, positions: IntArray) -> Measure:
        """Measure of a subset of the units."""
        return self.convert(lambda array: array[positions])

    @property
    def arrays(self) -> tuple[NDArray[Any] | None, ...]:
        """Fields with one number for each unit."""
        return self.values, self.where, self.ties, self.chance, self.weights

    def convert(self, function: Callable[[NDArray[Any]], NDArray[Any]]) -> Measure:
        """Measure whose arrays are replaced by the function's."""
        values, where, ties, chance, weights = (
            None if array is None else function(array) for array in self.arrays
        )
        return replace(
            self,
            values=cast(FloatArray, values),
            where=cast(BoolArray, where),
            ties=ties,
            chance=chance,
            weights=weights,
        )

    @property
    def binary(self) -> bool:
        """Whether every value is 0 or 1 with equal weight, so that McNemar's test applies."""
        values = self.values[self.where]
        return self.weights is None and bool(np.isin(values, (0, 1)).all())


@dataclass(frozen=True, slots=True)
class DerivedMetric:
    """Metric derived from the summaries of measures, not from one value per unit.

    Attributes:
        kind: "average" and "minimum" of the sources' means; "auroc" of the first source's
            values (right captions) against the second's (foils), each where it is defined;
            "pearson", "spearman" and "kendall" (τ-b) correlation of the first source's scores with
            the second's ratings; "pairwise" accuracy of both, with ties calibrated on other
            clusters, and "pairwise_same" with ties calibrated on the same pairs;
            "calibration" of the first source's probabilities against the second's labels; "std"
            and "mean_abs" of the first source, in standard deviations of the scores whose mean and
            variance in each unit the others are.
        sources: names of measures; the first says whether higher or lower is better.
        chance: chance level.
    """

    kind: Literal[
        "average",
        "minimum",
        "auroc",
        "calibration",
        "std",
        "mean_abs",
        "pearson",
        "spearman",
        "kendall",
        "pairwise",
        "pairwise_same",
    ]
    sources: tuple[str, ...]
    chance: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """Measures of all metrics on the units of one run.

    Attributes:
        ids: k unit ids.
        tags: for each tag its value for each unit.
        clusters: for each unit its cluster; None when images are unknown.
        measures: by name, in the order of the report.
        derived: by name, in the order of the report.
        notes: sentences for the reader.
    """

    ids: tuple[str, ...]
    tags: Mapping[str, tuple[TagValue, ...]]
    clusters: IntArray | None
    measures: Mapping[str, Measure]
    derived: Mapping[str, DerivedMetric] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def cluster_count(self) -> int | None:
        """Number of clusters; None when images are unknown."""
        if self.clusters is None:
            return None
        return renumber(self.clusters, int(self.clusters.max(initial=-1)) + 1)[1]

    def take(self, positions: IntArray) -> Measurements:
        """Measures of a subset of the units."""
        chosen = positions.tolist()
        return replace(
            self,
            ids=tuple(map(self.ids.__getitem__, chosen)),
            tags={
                name: tuple(map(values.__getitem__, chosen)) for name, values in self.tags.items()
            },
            clusters=None if self.clusters is None else self.clusters[positions],
            measures={name: measure.take(positions) for name, measure in self.measures.items()},
        )


def measure_from_outcome(outcome: Outcome, where: BoolArray | None = None) -> Measure:
    """Convert an outcome of `contrapose.metrics` to a measure."""
    size = len(outcome.values)
    return Measure(
        values=np.asarray(outcome.values, dtype=np.float64),
        where=np.ones(size, dtype=np.bool_) if where is None else where,
        ties=outcome.ties,
        chance=None if outcome.chance is None else np.full(size, outcome.chance),
    )


def place_measures(
    parts: Iterable[tuple[IntArray | slice, Mapping[str, Measure]]], size: int
) -> dict[str, Measure]:
    """Place measures of some of the units among all of them; they are undefined elsewhere.

    Args:
        parts: positions of disjoint units, and the measures of those units by name.
        size: number of all units.
    """
    placed: dict[str, Measure] = {}
    for positions, measures in parts:
        for name, part in measures.items():
            if name not in placed:
                placed[name] = part.convert(lambda array: np.zeros(size, array.dtype))
            target = placed[name]
            for array, values in zip(target.arrays, part.arrays, strict=True):
                if array is not None and values is not None:
                    array[positions] = values
    return placed


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Groups of units whose means are averaged.

    Attributes:
        codes: for each unit its group; −1 when it does not count.
        names: of the groups.
        parents: for each group the group of groups it is averaged in first.
    """

    codes: IntArray
    names: tuple[str, ...]
    parents: tuple[int, ...]


def units_by_tag(measured: Measurements, by: Sequence[str]) -> dict[str, IntArray]:
    """Positions of the units with each value of each tag, in order of first appearance.

    A unit with several values of a tag stands in several parts. When two tags share a value and
    mean different units by it, the names become `tag=value`.

    Raises:
        InputError: no unit has the tag.
    """
    by_value: dict[tuple[str, str], IntArray] = {}
    for tag in by:
        if tag not in measured.tags:
            known = ", ".join(measured.tags) or "none"
            raise InputError(f"no example has the tag {tag!r}; tags here: {known}.")
        by_value |= {
            (tag, value): positions
            for value, positions in group_positions(measured.tags[tag]).items()
        }
    named: dict[str, IntArray] = {}
    for (tag, value), positions in by_value.items():
        clash = any(
            other != tag and name == value and not np.array_equal(where, positions)
            for (other, name), where in by_value.items()
        )
        named[f"{tag}={value}" if clash else value] = positions
    return named


def group_positions(values: Sequence[TagValue]) -> dict[str, IntArray]:
    """Positions of the units with each value of a tag, in order of first appearance."""
    distinct, index = find_distinct(values)
    holders: dict[str, list[int]] = {}
    for number, value in enumerate(distinct):
        for name in dict.fromkeys(tag_values(value)):
            holders.setdefault(name, []).append(number)
    order = np.argsort(index, kind="stable")
    starts = np.searchsorted(index[order], np.arange(len(distinct) + 1)).tolist()
    rows = [order[start:end] for start, end in pairwise(starts)]
    return {
        name: np.sort(np.concatenate([rows[number] for number in numbers]))
        for name, numbers in holders.items()
    }


def group_units(measured: Measurements, aggregation: Macro) -> Grouping | None:
    """Groups of a macro average; None when the units do not have the tag."""
    values = measured.tags.get(aggregation.tag)
    if values is None or not any(values):
        return None
    names = [str(value) for value in values]
    unique, inverse = find_distinct(names)  # arrays of texts would drop a NUL at the end
    counts = dict(zip(unique, np.bincount(inverse).tolist(), strict=True))
    kept = [
        name
        for name in dict.fromkeys(names)
        if name and name not in aggregation.drop and counts[name] >= aggregation.least
    ]
    if not kept:
        return None
    code_of = {name: i for i, name in enumerate(kept)}
    codes = np.array([code_of.get(name, -1) for name in unique], dtype=np.int64)[inverse]
    parent_of = {
        member: group for group, members in aggregation.groups.items() for member in members
    }
    groups = list(dict.fromkeys(parent_of.get(name, name) for name in kept))
    parents = tuple(groups.index(parent_of.get(name, name)) for name in kept)
    return Grouping(codes, tuple(kept), parents)


def describe_aggregation(aggregation: Aggregation) -> str:
    """Describe how the headline is aggregated."""
    if not isinstance(aggregation, Macro):
        return "mean over examples"
    words = f"mean over {aggregation.tag} means"
    for group, members in aggregation.groups.items():
        words += f", {group} the mean of its {len(members)}"
    if aggregation.drop:
        words += f", {len(aggregation.drop)} symmetric ones left out"
    if aggregation.least > 1:
        words += f", those with at least {aggregation.least} examples"
    return words


def tag_values(value: TagValue) -> tuple[str, ...]:
    """Values of a tag: none, one or several."""
    if isinstance(value, tuple):
        return value
    return (value,) if value else ()


NAMED_PARTS = 5
"""Parts that a note names."""


def known_interval(bounds: tuple[float, float]) -> tuple[float, float] | None:
    """Interval; None where there is none."""
    return None if math.isnan(bounds[0]) else bounds


def note_few_clusters(parts: Mapping[str, Mapping[str, MetricValue]]) -> tuple[str, ...]:
    """Note on the parts that have no interval, if any."""
    names = [name for name, values in parts.items() if any(v.ci95 is None for v in values.values())]
    if not names:
        return ()
    shown = ", ".join(names[:NAMED_PARTS]) + (
        f" and {len(names) - NAMED_PARTS} more" if len(names) > NAMED_PARTS else ""
    )
    return (
        f"no interval where there are fewer than {FEWEST_UNITS} clusters of examples that "
        f"share images, as in {shown}: so few do not tell how much a value varies",
    )
