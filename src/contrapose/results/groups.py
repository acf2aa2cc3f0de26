"""Parts of the units: by the values of tags, and by the way a benchmark's paper adds up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.data import Aggregation, Macro, TagValue
from contrapose.errors import InputError
from contrapose.metrics import IntArray
from contrapose.results.measured import Measured


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Units in groups whose means are averaged.

    Attributes:
        codes: for each unit its group; −1 when it does not count.
        names: of the groups.
        parents: for each group the group of groups it is averaged in first.
    """

    codes: IntArray
    names: tuple[str, ...]
    parents: tuple[int, ...]


def parts(measured: Measured, by: Sequence[str]) -> dict[str, IntArray]:
    """Positions of the units with each value of each tag, in order of first appearance.

    A unit with several values of a tag stands in several parts. When two tags share a value and
    mean different units by it, the names become `tag=value`.

    Raises:
        InputError: no unit has the tag.
    """
    found: dict[tuple[str, str], list[int]] = {}
    for tag in by:
        if tag not in measured.tags:
            known = ", ".join(measured.tags) or "none"
            raise InputError(f"no example has the tag {tag!r}; tags here: {known}.")
        for i, value in enumerate(measured.tags[tag]):
            for one in _values(value):
                found.setdefault((tag, one), []).append(i)
    named: dict[str, IntArray] = {}
    for (tag, value), positions in found.items():
        clash = any(
            other != tag and name == value and where != positions
            for (other, name), where in found.items()
        )
        named[f"{tag}={value}" if clash else value] = np.array(positions, dtype=np.int64)
    return named


def grouping(measured: Measured, aggregation: Macro) -> Grouping | None:
    """The groups a macro average is taken over; None when the units do not have the tag."""
    values = measured.tags.get(aggregation.tag)
    if values is None or not any(values):
        return None
    names = [str(value) for value in values]
    unique, inverse, sizes = np.unique(np.array(names), return_inverse=True, return_counts=True)
    counts = dict(zip(unique.tolist(), sizes.tolist(), strict=True))
    kept = [
        name
        for name in dict.fromkeys(names)
        if name and name not in aggregation.drop and counts[name] >= aggregation.least
    ]
    if not kept:
        return None
    code_of = {name: i for i, name in enumerate(kept)}
    codes = np.array([code_of.get(name, -1) for name in unique.tolist()], dtype=np.int64)[inverse]
    parent_of = {
        member: group for group, members in aggregation.groups.items() for member in members
    }
    groups = list(dict.fromkeys(parent_of.get(name, name) for name in kept))
    parents = tuple(groups.index(parent_of.get(name, name)) for name in kept)
    return Grouping(codes, tuple(kept), parents)


def aggregation_words(aggregation: Aggregation) -> str:
    """How the headline adds up, in words."""
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


def _values(value: TagValue) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    return (value,) if value else ()
