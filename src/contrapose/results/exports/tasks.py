"""A run as other programs' tasks: the benchmark, and each of its parts as a task of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from contrapose.results.exports.source import Exported
from contrapose.results.measured import Measured
from contrapose.results.schema import MetricValue

Z95 = 1.96
"""Half of a 95 % interval is so many standard errors."""

PART = "part"
"""The tag that says which part of a suite a unit belongs to."""

MAIN = (
    "average",
    "group",
    "accuracy",
    "augmented_accuracy",
    "pairwise_accuracy",
    "mean_recall",
    "top1",
    "simat_n1",
    "image",
)
"""The metric that stands for a task: the first of these that it has."""


@dataclass(frozen=True, slots=True)
class Task:
    """A benchmark or one of its parts.

    Attributes:
        name: unique in its export, of letters, figures and `_.-`.
        alias: as people know it.
        part: its key among the results' subsets; empty for the whole benchmark.
        parent: name of the task it is a part of; empty for the whole benchmark.
        metrics: its values.
    """

    name: str
    alias: str
    part: str
    parent: str
    metrics: Mapping[str, MetricValue]

    @property
    def count(self) -> int:
        """How many examples or queries it is of."""
        return max((value.n for value in self.metrics.values()), default=0)

    @property
    def main(self) -> str:
        """The name of the metric that stands for it."""
        return next((name for name in MAIN if name in self.metrics), next(iter(self.metrics), ""))


def tasks_of(run: Exported) -> list[Task]:
    """The benchmark first, then every part; parts of a suite's parts stand below those."""
    root = slug(run.results.benchmark)
    found = [Task(root, run.results.benchmark, "", "", run.results.metrics)]
    taken = {root}
    names: dict[str, str] = {}
    for part, metrics in run.results.subsets.items():
        if not metrics:
            continue
        above = part.partition("/")[0]
        names[part] = unique(f"{root}_{slug(part)}", taken)
        parent = names.get(above, root) if above != part else root
        found.append(Task(names[part], part, part, parent, metrics))
    return found


def homes(run: Exported, tasks: Iterable[Task]) -> dict[str, list[int]]:
    """Which units each task's samples are of: every unit in one task, the whole where unsure."""
    tasks = list(tasks)
    by_part = {task.part: task.name for task in tasks}
    root = tasks[0].name
    for tag in (PART, "subset", *run.measured.tags):
        values = run.measured.tags.get(tag)
        if values and all(isinstance(value, str) and value in by_part for value in values):
            found: dict[str, list[int]] = {}
            for i, value in enumerate(values):
                found.setdefault(by_part[str(value)], []).append(i)
            return found
    return {root: list(range(len(run.measured)))}


def better(measured: Measured, task: Task, metric: str) -> bool | None:
    """Whether more is better of a metric; None when neither is."""
    plain = re.sub(r"_(micro|macro)$", "", metric)
    part = task.part.partition("/")[0]
    names = [name for each in (metric, plain) for name in (each, f"{part}/{each}")]
    for name in names:
        if name in measured.derived:
            ways = {
                measured.measures[source].better
                for source in measured.derived[name].sources
                if source in measured.measures
            }
            return True if ways <= {"higher", None} and "higher" in ways else None
        if name in measured.measures:
            way = measured.measures[name].better
            return None if way is None else way == "higher"
    inside = {m.better for name, m in measured.measures.items() if name.startswith(f"{part}/")}
    return True if inside == {"higher"} else None  # derived from the part's own, such as a mean


def values_of(measured: Measured, unit: int) -> dict[str, float]:
    """The metrics of one unit; those of a suite without their part's name."""
    part = ""
    if PART in measured.tags:
        part = f"{measured.tags[PART][unit]}/"
    return {
        name.removeprefix(part): float(measure.values[unit])
        for name, measure in measured.measures.items()
        if measure.where[unit]
    }


def standard_error(value: MetricValue) -> float:
    """Half the width of the 95 % interval over 1.96, as if it were a normal one."""
    low, high = value.ci95
    return (high - low) / 2 / Z95


def slug(text: str) -> str:
    """A name that can be a file's: letters, figures, `_`, `.` and `-`."""
    return re.sub(r"[^\w.-]+", "_", text).strip("_.") or "unnamed"


def unique(name: str, taken: set[str]) -> str:
    """The name, or with a number after it where it is taken; takes it."""
    found, number = name, 2
    while found.lower() in {each.lower() for each in taken}:
        found, number = f"{name}_{number}", number + 1
    taken.add(found)
    return found
