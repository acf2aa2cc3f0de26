"""A benchmark's card: where it comes from, what it holds, how its paper adds it up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Family = Literal["choice", "foil", "pairs", "images", "triple", "retrieval", "classes", "edits"]
"""Which metrics apply (methods, section 1).

choice: 1 × n, one right. foil: caption and foil with a threshold (VALSE). pairs: m × n, text,
image and group score. images: the image score alone (COLA). triple: 1 × 3, original, hard
negative and hard positive in this order. retrieval: N × M. classes: N × classes. edits: SIMAT.
"""

ScoreLayout = Literal["general", "winoground", "valse", "subset arrays"]
"""How people's score files for it look, beside the general table that is always understood."""


@dataclass(frozen=True, slots=True)
class Micro:
    """The headline is the mean over all examples."""


@dataclass(frozen=True, slots=True)
class Macro:
    """The headline is the mean of the means over the values of a tag.

    Attributes:
        tag: the tag to average over.
        groups: values that count together as one, as the mean of their means (EqBen's Kubric).
        drop: values that do not count (ARO's symmetric relations).
        least: values with fewer examples do not count (ARO's attributes: 25).
    """

    tag: str
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()
    least: int = 1


Aggregation = Micro | Macro


@dataclass(frozen=True, slots=True)
class Card:
    """What `contrapose list benchmarks` shows and what scoring needs to know.

    Attributes:
        name: what the user types.
        title: one line.
        paper: authors, title, year, and where it can be read.
        licence: of the annotations and of the images.
        source: where the files come from.
        layout: the folder as it must be under `--root`, a line a file.
        shape: images × captions, in words for people.
        family: which metrics apply.
        counts: examples of each subset in the released files.
        aggregation: how its own paper makes one number of it.
        chance: what guessing gets, by metric.
        tags: every tag the reader sets, and what it is.
        by: the tags broken down without being asked.
        match: the shape and match of every example, when they are all alike; lets scores be
            read without the annotations.
        scores: the layout of its native score files.
        average: also report the mean of all headline metrics (EqBen's Avg).
        official_ties: what the official script makes of a tie.
        official_limit: a tag, and how many examples of each of its values the official script
            takes at the most.
        official: how the official scoring differs from ours, in one line; empty if it does not.
    """

    name: str
    title: str
    paper: str
    licence: str
    source: str
    layout: str
    shape: str
    family: Family
    counts: Mapping[str, int]
    aggregation: Aggregation
    chance: Mapping[str, float]
    tags: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ("subset",)
    match: tuple[tuple[bool, ...], ...] | None = None
    scores: ScoreLayout = "general"
    average: bool = False
    official_ties: Literal["wrong", "right"] = "wrong"
    official_limit: tuple[str, int] | None = None
    official: str = ""
