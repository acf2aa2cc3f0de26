"""Per-example outcomes: what every table, interval, test and comparison is computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from contrapose.data import TagValue
from contrapose.metrics import BoolArray, FloatArray, IntArray, Outcome

Summary = Literal["mean", "std"]


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """One metric's value for every unit (example or query).

    Attributes:
        values: k numbers, 0 or 1 for accuracies.
        where: the units it is defined for.
        ties: the units with a tied comparison; None when nothing is compared.
        chance: what guessing gets, unit by unit; None when guessing has no meaning.
        weights: how much each unit counts; None when all count alike.
        summary: what is reported of the values.
        better: which way is better; None when neither is.
        grouped: whether means of group means make sense of it.
        shown: whether it is reported itself, or only feeds a derived number.
    """

    values: FloatArray
    where: BoolArray
    ties: BoolArray | None = None
    chance: FloatArray | None = None
    weights: FloatArray | None = None
    summary: Summary = "mean"
    better: Literal["higher", "lower"] | None = "higher"
    grouped: bool = True
    shown: bool = True

    def take(self, positions: IntArray) -> Measure:
        """The measure of some of the units."""
        return replace(
            self,
            values=self.values[positions],
            where=self.where[positions],
            ties=None if self.ties is None else self.ties[positions],
            chance=None if self.chance is None else self.chance[positions],
            weights=None if self.weights is None else self.weights[positions],
        )

    @property
    def binary(self) -> bool:
        """Whether every value is 0 or 1 and all count alike, so that McNemar's test applies."""
        values = self.values[self.where]
        return (
            self.summary == "mean" and self.weights is None and bool(np.isin(values, (0, 1)).all())
        )


@dataclass(frozen=True, slots=True)
class Derived:
    """A number made of the summaries of measures, not of a value a unit.

    Attributes:
        kind: "average" and "minimum" of the sources' summaries; "auroc" of the first source's
            values (right captions) against the second's (foils).
        sources: names of measures.
        chance: what guessing gets.
    """

    kind: Literal["average", "minimum", "auroc"]
    sources: tuple[str, ...]
    chance: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Everything measured on the units of one run.

    Attributes:
        ids: k unit ids.
        tags: for each tag its value for each unit.
        clusters: for each unit its cluster; None when images are unknown.
        measures: by name, in the order of the report.
        derived: by name, in the order of the report.
        notes: what a reader should know.
    """

    ids: tuple[str, ...]
    tags: Mapping[str, tuple[TagValue, ...]]
    clusters: IntArray | None
    measures: Mapping[str, Measure]
    derived: Mapping[str, Derived] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, positions: IntArray) -> Measured:
        """The same of some of the units."""
        chosen = positions.tolist()
        return replace(
            self,
            ids=tuple(self.ids[i] for i in chosen),
            tags={name: tuple(values[i] for i in chosen) for name, values in self.tags.items()},
            clusters=None if self.clusters is None else self.clusters[positions],
            measures={name: measure.take(positions) for name, measure in self.measures.items()},
        )


def from_outcome(outcome: Outcome, where: BoolArray | None = None) -> Measure:
    """The measure of an outcome of `contrapose.metrics`."""
    size = len(outcome.values)
    return Measure(
        values=np.asarray(outcome.values, dtype=np.float64),
        where=np.ones(size, dtype=np.bool_) if where is None else where,
        ties=outcome.ties,
        chance=None if outcome.chance is None else np.full(size, outcome.chance),
    )
