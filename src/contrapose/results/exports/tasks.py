"""Run folders as tasks of other programs: the benchmark, and each of its parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from contrapose.errors import InputError, option, shortage_error
from contrapose.results.measures import Measurements
from contrapose.results.run_files import SCORES, SPEC, read_spec, read_table
from contrapose.results.run_tables import KEYS
from contrapose.results.runs import is_run, read_results, read_run
from contrapose.results.schema import MetricValue, Results
from contrapose.results.shapes import AVERAGE, main_metric


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Score of one image-caption pair of an example; None where it has no image or caption."""

    image: int | None
    text: int | None
    value: float
    match: bool | None


@dataclass(frozen=True, slots=True, eq=False)
class FolderRun:
    """Run of a folder: one model, benchmark and score.

    Attributes:
        results: what was reported.
        measured: the outcome of every example.
        pairs: the scores of every example; empty where units are queries of a gallery.
        fingerprint: of the model; empty when the scores came from a file.
    """

    results: Results
    measured: Measurements
    pairs: Mapping[str, tuple[ScoredPair, ...]]
    fingerprint: str = ""

    @property
    def model(self) -> str:
        """Name of the model, or of the score file in its place."""
        return self.results.model or Path(self.results.scores or "scores").stem

    @property
    def score(self) -> str:
        """Name of the score; empty when the scores came from a file."""
        return self.results.score or ""


@dataclass(frozen=True, slots=True, eq=False)
class RunFolder:
    """Run folder: its request, time and runs.

    Attributes:
        request: the options of the runs.
        time: of the runs.
        runs: in the folder's order.
    """

    request: Mapping[str, Any]
    time: datetime
    runs: tuple[FolderRun, ...]


def read_run_folder(folder: Path, time: datetime | None = None) -> RunFolder:
    """Read a run folder.

    Args:
        folder: the run folder.
        time: of the run; None takes that of the folder's spec, or when that was written.

    Raises:
        InputError: there is none, it is damaged, or it is of another version.
    """
    if not folder.exists():
        raise InputError("does not exist.", file=folder)
    if not is_run(folder):
        raise InputError(
            f"is not a run folder; {option('out')} of contrapose eval writes one.", file=folder
        )
    spec = read_spec(folder)
    results = read_results(folder)
    try:
        entries = spec["runs"]
        names = [tuple(filter(None, (entry[key] for key in KEYS))) for entry in entries]
        request = dict(spec["request"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"is a damaged run folder ({error}).", file=folder) from None
    if len(results) != len(names):
        raise InputError("is a damaged run folder (results are missing).", file=folder)
    runs = []
    scores = read_table(folder, SCORES, spec)
    for entry, name, values in zip(entries, names, results, strict=True):
        _, measured = read_run(folder, name)
        pairs = _read_pairs(scores, entry, measured, folder)
        runs.append(FolderRun(values, measured, pairs, str(entry.get("fingerprint", ""))))
    return RunFolder(request, time or _find_time(spec, folder), tuple(runs))


def parse_time(text: str) -> datetime:
    """Parse a time such as `2026-01-31T12:00:00`; UTC unless it says otherwise.

    Raises:
        InputError: it is none.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{option('time')} must be a moment such as 2026-01-31T12:00:00, found {text!r}."
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def _find_time(spec: Mapping[str, Any], folder: Path) -> datetime:
    time = spec.get("time")
    if isinstance(time, str):
        return parse_time(time)
    return datetime.fromtimestamp(int((folder / SPEC).stat().st_mtime), UTC)


def _read_pairs(
    scores: Any, entry: Mapping[str, Any], measured: Measurements, folder: Path
) -> dict[str, tuple[ScoredPair, ...]]:
    """Read the scores of one run's examples, in the order they were written."""
    if scores is None:
        return {}
    try:
        wanted = pc.is_in(pc.field("example"), pa.array(measured.ids, pa.string()))
        for key in KEYS:
            field = pc.field(key)
            wanted &= field.is_null() if entry[key] is None else field == entry[key]
        columns = ["example", "image", "text", "value", "match"]
        rows = scores.filter(wanted).select(columns).to_pydict()
    except (pa.ArrowException, KeyError) as error:
        raise shortage_error(error, folder) or InputError(
            f"is a damaged run folder ({SCORES}: {error}).", file=folder
        ) from None
    by_example: dict[str, list[ScoredPair]] = {}
    for example, *pair in zip(*(rows[name] for name in columns), strict=True):
        by_example.setdefault(example, []).append(ScoredPair(*pair))
    return {example: tuple(pairs) for example, pairs in by_example.items()}


Z95 = 1.96
"""Half the width of a 95 % interval in standard errors."""

PART = "part"
"""Tag with the part of a suite that a unit belongs to."""


@dataclass(frozen=True, slots=True)
class ExportTask:
    """Task of an export: a benchmark or one of its parts.

    Attributes:
        name: unique in its export, of letters, figures and `_.-`.
        alias: as people know it.
        part: its key among the results' subsets; empty for the benchmark.
        parent: name of the task it is a part of; empty for the benchmark.
        metrics: its values.
    """

    name: str
    alias: str
    part: str
    parent: str
    metrics: Mapping[str, MetricValue]

    @property
    def count(self) -> int:
        """Number of examples or queries."""
        return max((value.n for value in self.metrics.values()), default=0)

    @property
    def main(self) -> str:
        """Name of the main metric: an average where there is one."""
        if AVERAGE in self.metrics:
            return AVERAGE
        return main_metric(self.metrics) or next(iter(self.metrics), "")


def list_tasks(run: FolderRun) -> list[ExportTask]:
    """List the tasks of a run: the benchmark, its parts, and below those their parts."""
    root = slugify(run.results.benchmark)
    tasks = [ExportTask(root, run.results.benchmark, "", "", run.results.metrics)]
    taken = {root}
    names: dict[str, str] = {}
    for part, metrics in run.results.subsets.items():
        if not metrics:
            continue
        above = part.partition("/")[0]
        names[part] = unique_name(f"{root}_{slugify(part)}", taken)
        parent = names.get(above, root) if above != part else root
        tasks.append(ExportTask(names[part], part, part, parent, metrics))
    return tasks


def units_by_task(run: FolderRun, tasks: Iterable[ExportTask]) -> dict[str, list[int]]:
    """Units of each task's samples: every unit in one task, the benchmark's where unsure."""
    tasks = list(tasks)
    by_part = {task.part: task.name for task in tasks}
    root = tasks[0].name
    for tag in (PART, "subset", *run.measured.tags):
        values = run.measured.tags.get(tag)
        if values and all(isinstance(value, str) and value in by_part for value in values):
            units: dict[str, list[int]] = {}
            for i, value in enumerate(values):
                units.setdefault(by_part[str(value)], []).append(i)
            return units
    return {root: list(range(len(run.measured)))}


def is_higher_better(measured: Measurements, task: ExportTask, metric: str) -> bool | None:
    """Whether higher is better for a metric; None when neither is."""
    plain = re.sub(r"_(micro|macro)$", "", metric)
    part = task.part.partition("/")[0]
    names = (metric, f"{part}/{metric}", plain, f"{part}/{plain}")
    for name in names:
        if name in measured.derived:
            ways = {
                measured.measures[source].better
                for source in measured.derived[name].sources
                if source in measured.measures
            } - {None}
            return None if len(ways) != 1 else ways == {"higher"}
        if name in measured.measures:
            way = measured.measures[name].better
            return None if way is None else way == "higher"
    inside = {m.better for name, m in measured.measures.items() if name.startswith(f"{part}/")}
    return True if inside == {"higher"} else None  # derived from the part's own, such as a mean


def unit_metrics(measured: Measurements, unit: int) -> dict[str, float]:
    """Metrics of one unit; those of a suite without the name of the part."""
    part = ""
    if PART in measured.tags:
        part = f"{measured.tags[PART][unit]}/"
    return {
        name.removeprefix(part): float(measure.values[unit])
        for name, measure in measured.measures.items()
        if measure.where[unit]
    }


def standard_error(value: MetricValue) -> float | None:
    """Standard error: half the width of the 95 % interval over 1.96, as if it were normal.

    None where there is no interval.
    """
    if value.ci95 is None:
        return None
    low, high = value.ci95
    return (high - low) / 2 / Z95


def slugify(text: str) -> str:
    """Turn a text into a file name: letters, figures, `_`, `.` and `-`."""
    return re.sub(r"[^\w.-]+", "_", text).strip("_.") or "unnamed"


def unique_name(name: str, taken: set[str]) -> str:
    """Make a name unique by a number after it, and add it to `taken`."""
    lowered = {other.lower() for other in taken}
    unique, number = name, 2
    while unique.lower() in lowered:
        unique, number = f"{name}_{number}", number + 1
    taken.add(unique)
    return unique
