"""Tables of results: headline, parts, language prior, skipped examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from contrapose.errors import option
from contrapose.report.alpha import alpha_table
from contrapose.report.tables import (
    Table,
    format_interval,
    format_metric,
    format_percent,
    format_value,
    is_share,
    mark_values,
    metric_words,
)
from contrapose.results import MetricValue, Results, shapes
from contrapose.results.shapes import AVERAGE

MAX_PARTS = 40
"""Parts that a table or a plot shows; ARO's attributes come in hundreds."""


def run_label(run: Results) -> str:
    """Label of a run: model and score, or the name of its score file."""
    words = (run.model, run.score) if run.model else (Path(run.scores or "").name, run.score)
    return " · ".join(word for word in words if word) or run.benchmark


@dataclass(frozen=True, slots=True)
class PartRow:
    """Main metric of one part of a benchmark in every run.

    Attributes:
        part: name of the part.
        metric: main metric of the part.
        values: by the run's label; runs without the part are left out.
    """

    part: str
    metric: str
    values: Mapping[str, MetricValue]

    @property
    def metric_words(self) -> str:
        """Metric in words; empty for plain accuracy."""
        return "" if self.metric in ("accuracy", AVERAGE) else metric_words(self.metric)

    @property
    def label(self) -> str:
        """Part, with its metric unless that is plain accuracy."""
        return f"{self.part} ({self.metric_words})" if self.metric_words else self.part

    @property
    def chance(self) -> float | None:
        """Chance level."""
        return next((value.chance for value in self.values.values()), None)

    @property
    def size(self) -> int:
        """Number of examples."""
        return max(value.n for value in self.values.values())


def part_rows(runs: Sequence[Results]) -> list[PartRow]:
    """Rows of all parts of the runs, in the runs' order; without parts of parts."""
    parts: dict[str, dict[str, Mapping[str, MetricValue]]] = {}
    for run in runs:
        for part, metrics in run.subsets.items():
            if part.rpartition("/")[0] not in run.subsets:
                parts.setdefault(part, {})[run_label(run)] = metrics
    rows = []
    for part, by_run in parts.items():
        metric = row_metric(next(iter(by_run.values())))
        values = {label: metrics[metric] for label, metrics in by_run.items() if metric in metrics}
        if values:
            rows.append(PartRow(part, metric, values))
    return rows


def largest_parts(rows: Sequence[PartRow]) -> Sequence[PartRow]:
    """Rows of the largest parts, the largest first; all in their order where they are few."""
    if len(rows) <= MAX_PARTS:
        return rows
    return sorted(rows, key=lambda row: -row.size)[:MAX_PARTS]


def overall_row(runs: Sequence[Results]) -> PartRow | None:
    """Row of the headline metric of every run."""
    metric = row_metric(runs[0].metrics) if runs else ""
    values = {run_label(run): run.metrics[metric] for run in runs if metric in run.metrics}
    return PartRow(AVERAGE if metric == AVERAGE else "all", metric, values) if values else None


def row_metric(metrics: Mapping[str, MetricValue]) -> str:
    """Main metric of a part: its shape's, or the first share."""
    shares = (name for name, value in metrics.items() if is_share(value))
    return shapes.main_metric(metrics) or next(shares, next(iter(metrics), ""))


def parts_table(runs: Sequence[Results]) -> Table:
    """Table with one row per part and one column per run, with intervals; the largest parts."""
    labels = [run_label(run) for run in runs]
    last = overall_row(runs)
    rows = tuple(
        (
            row.label,
            _count_cell(row.values, labels),
            format_percent(row.chance),
            *(format_metric(row.values.get(label), digits=1) for label in labels),
        )
        for row in (*largest_parts(part_rows(runs)), *([last] if last else []))
    )
    names = ", ".join(dict.fromkeys(run.benchmark for run in runs))
    title = f"{names} · right in %, with 95 % intervals · {tie_words(runs)}"
    return Table(title, ("<change", "n", "chance", *labels), rows, total=last is not None)


METRIC_COLUMNS = ("value", "95 % interval", "n", "chance", "ties")


def metric_cells(metric: MetricValue) -> tuple[str, ...]:
    """Cells of a metric under `METRIC_COLUMNS`."""
    share = is_share(metric)
    return (
        format_value(metric.value, share=share),
        format_interval(metric.ci95, share=share),
        f"{metric.n:,}",
        format_value(metric.chance, share=share),
        format_value(metric.ties, share=share),
    )


def _strict_cell(results: Results, name: str) -> str:
    """Value of a metric where ties are never wins, beside that of the official protocol."""
    metric = results.strict.get(name)
    return "–" if metric is None else format_value(metric.value, share=is_share(metric))


def headline_table(runs: Sequence[Results]) -> Table:
    """Table of every run's headline metrics: value, interval, n, chance and ties."""
    rows = tuple(
        (run_label(run), metric_words(name), *metric_cells(metric))
        for run in runs
        for name, metric in (
            *run.metrics.items(),
            *((f"{name} (strict)", metric) for name, metric in run.strict.items()),
        )
    )
    return Table("", ("<model · score", "<metric", *METRIC_COLUMNS), rows)


def part_metrics_table(runs: Sequence[Results]) -> Table:
    """Table of every metric of every part of every run."""
    rows = tuple(
        (run_label(run), part, metric_words(name), *metric_cells(metric))
        for run in runs
        for part, metrics in run.subsets.items()
        for name, metric in metrics.items()
    )
    return Table("", ("<model · score", "<part", "<metric", *METRIC_COLUMNS), rows)


def skipped_table(runs: Sequence[Results]) -> Table:
    """Table of skipped examples by run and reason."""
    rows = tuple(
        (run_label(run), run.benchmark, reason, f"{count:,}")
        for run in runs
        if run.skipped is not None
        for reason, count in run.skipped.reasons.items()
    )
    return Table("", ("<model · score", "<benchmark", "<reason", "examples"), rows)


def strict_changes(run: Results) -> list[str]:
    """Names of the headline metrics that the official protocol counts differently."""
    return [name for name, value in run.strict.items() if run.metrics.get(name) != value]


def tie_words(runs: Sequence[Results]) -> str:
    """Tie rule of runs in words."""
    if all(run.protocol == "strict" for run in runs):
        return "ties never win"
    known = all(run.strict for run in runs)
    same = known and not any(map(strict_changes, runs))
    return "official protocol, the same as strict" if same else "official protocol"


Column = TypeVar("Column")


def _count_cell(values: Mapping[Column, MetricValue], runs: Iterable[Column]) -> str:
    """Number of examples of a row; that of each run, in their order, where they differ."""
    counts = [f"{value.n:,}" for value in values.values()]
    if len(set(counts)) == 1:
        return counts[0]
    return " / ".join(f"{values[run].n:,}" if run in values else "–" for run in runs)


EQUIVARIANCE = {
    f"equivariance_{side}_{kind}" for side in ("text", "image") for kind in ("std", "mean_abs")
}
EQUIVARIANCE_NOTE = (
    "Note: equivariance is in standard deviations of the model's scores within the part of its "
    "row (lower is better); a mean over parts is of values that are standardized part by part."
)


def results_tables(results: Results, *, every: bool = False) -> list[Table | str]:
    """Output of `contrapose metrics` for one score file.

    Args:
        results: of the file.
        every: show values that are no shares of examples too, such as mean scores.
    """
    title = (
        f"{results.benchmark} · {results.examples:,} examples · {results.aggregation} · "
        f"{tie_words([results])}"
    )
    strict = ("strict",) if results.strict else ()
    shares = [name for name, metric in results.metrics.items() if is_share(metric)]
    names = list(results.metrics) if every or not shares else shares
    tied = any(results.metrics[name].ties for name in names)
    columns = METRIC_COLUMNS if tied else METRIC_COLUMNS[:-1]
    rows = tuple(
        (
            name,
            *metric_cells(results.metrics[name])[: len(columns)],
            *(_strict_cell(results, name) for _ in strict),
        )
        for name in names
    )
    marks = {
        (i, 1): mark
        for i, name in enumerate(names)
        for mark in mark_values({0: results.metrics[name]}, name).values()
    }
    hidden = len(results.metrics) - len(names)
    return [
        Table(title, ("<metric", *columns, *strict), rows, marks=marks, drop=("ties", "n")),
        *(_part_tables(results.subsets, every=every or not shares) if results.subsets else []),
        *([f"The main rows; {option('all', True)} shows {hidden:,} more."] if hidden else []),
        *([alpha_table(results.alpha)] if results.alpha else []),
        *([EQUIVARIANCE_NOTE] if EQUIVARIANCE & set(names) else []),
        *(f"Note: {note}." for note in results.notes),
    ]


def columns_tables(runs: Sequence[Results]) -> list[Table | str]:
    """Output of `contrapose metrics` for a file with several scores: a row for each score."""
    names = list(dict.fromkeys(name for run in runs for name in run.metrics))
    rows = tuple(
        (
            (run.scores or "").rpartition("@")[2],
            *(format_metric(run.metrics.get(name)) for name in names),
        )
        for run in runs
    )
    first = runs[0]
    title = f"{first.benchmark} · {first.examples:,} examples · with 95 % intervals"
    shared = [note for note in first.notes if all(note in run.notes for run in runs)]
    alone = [
        f"Note on {(run.scores or '').rpartition('@')[2]}: {note}."
        for run in runs
        for note in run.notes
        if note not in shared and len(run.metrics) < len(names)
    ]
    header = ("<score", *map(metric_words, names))
    more = (
        f"FILE@{(first.scores or '').rpartition('@')[2]} shows one score with its parts and notes."
    )
    return [Table(title, header, rows), *(f"Note: {note}." for note in shared), *alone, more]


def _part_tables(
    subsets: Mapping[str, Mapping[str, MetricValue]], *, every: bool
) -> list[Table | str]:
    """Tables with one row per part and one column per metric; the largest parts unless `every`.

    Shares stand in the first table, other values in the second, which only `every` shows.
    """
    left = 0 if every else len(subsets) - MAX_PARTS
    if left > 0:
        largest = sorted(subsets, key=lambda name: -_part_size(subsets[name].values()))[:MAX_PARTS]
        subsets = {name: subsets[name] for name in largest}
    tables: list[Table | str] = []
    for share in (True, False) if every else (True,):
        names = dict.fromkeys(
            name
            for metrics in subsets.values()
            for name, value in metrics.items()
            if is_share(value) is share
        )
        rows = tuple(
            (
                part,
                _part_counts([metrics[name] for name in names if name in metrics]),
                *(format_metric(metrics.get(name)) for name in names),
            )
            for part, metrics in subsets.items()
        )
        marks = {
            (i, 2 + k): mark
            for i, metrics in enumerate(subsets.values())
            for k, name in enumerate(names)
            if name in metrics
            for mark in mark_values({0: metrics[name]}, name).values()
        }
        tables += [Table("", ("<part", "n", *names), rows, marks=marks)] if names else []
    if left > 0:
        tables.append(f"The largest parts; {option('all', True)} shows {left:,} more.")
    return tables


def _part_counts(metrics: Iterable[MetricValue]) -> str:
    """Number of examples of a part; all numbers where metrics are of different ones."""
    return " / ".join(dict.fromkeys(f"{metric.n:,}" for metric in metrics))


def _part_size(metrics: Iterable[MetricValue]) -> int:
    return max((metric.n for metric in metrics), default=0)
