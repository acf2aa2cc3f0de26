"""Tables of text cells for terminal, pipe and HTML, and number formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from contrapose.errors import one_line, printable
from contrapose.results import MetricValue, Results

Align = Literal["left", "right"]
Mark = Literal["best", "leader", "below", "worse", "better"]

SIGNS: Mapping[Mark, str] = {
    "best": "*", "leader": "*", "below": "!", "worse": "▼", "better": "▲",
}  # fmt: skip
"""Sign behind a marked cell: color alone is lost in a pipe, in print and on some eyes."""
MEANINGS: Mapping[Mark, str] = {
    "best": "the best, or within noise of it: the interval reaches the best value",
    "leader": "the best, and models that no test tells from it",
    "below": "below chance: the interval ends under it",
}


@dataclass(frozen=True, slots=True)
class Table:
    """Table of text cells under a header.

    Attributes:
        title: line above the table; empty for none.
        header: column names; those that start with `<` are aligned left, the others right.
        rows: the cells.
        total: whether the last row sums up the others.
        marks: marks of cells by row and column.
        drop: columns that a narrow terminal leaves out, the least important first.
        narrow: tables that take its place in a terminal that is too narrow for it.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: bool = False
    marks: Mapping[tuple[int, int], Mark] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    narrow: tuple[Table, ...] = ()

    def columns(self) -> list[tuple[str, Align]]:
        """Column names without the alignment mark, and their alignments."""
        return [
            (name.removeprefix("<"), "left" if name.startswith("<") else "right")
            for name in self.header
        ]

    def select(self, columns: Sequence[int]) -> Table:
        """Table of these columns, with their marks."""
        moved = {old: new for new, old in enumerate(columns)}
        return replace(
            self,
            header=tuple(self.header[i] for i in columns),
            rows=tuple(tuple(row[i] for i in columns) for row in self.rows),
            marks={(row, moved[i]): mark for (row, i), mark in self.marks.items() if i in moved},
            narrow=(),
        )

    def with_plain_cells(self) -> Table:
        """Table whose cells have one line each, with ends of lines spelled out."""
        return replace(self, rows=tuple(tuple(map(one_line, row)) for row in self.rows))

    def printed_rows(self) -> list[tuple[str, ...]]:
        """Rows as they are printed: with signs of marks, and without control characters."""
        signed = {column for _, column in self.marks}
        return [
            tuple(
                printable(cell) + (SIGNS[self.marks[at]] if at in self.marks else " ")
                if i in signed
                else printable(cell)
                for i, cell in enumerate(row)
                for at in [(number, i)]
            )
            for number, row in enumerate(self.rows)
        ]

    def legend(self) -> str:
        """Line that explains the signs of the table; empty without any."""
        present = set(self.marks.values())
        some = (f"{SIGNS[mark]} {words}" for mark, words in MEANINGS.items() if mark in present)
        return " · ".join(some)

    def plain(self) -> str:
        """Plain-text lines of the table, never truncated."""
        columns = self.columns()
        cells = [
            tuple(one_line(name) for name, _ in columns),
            *self.with_plain_cells().printed_rows(),
        ]
        widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
        lines = [printable(self.title)] if self.title else []
        for row in cells:
            padded = (
                cell.ljust(width) if align == "left" else cell.rjust(width)
                for cell, width, (_, align) in zip(row, widths, columns, strict=True)
            )
            lines.append("  ".join(padded).rstrip())
        return "\n".join([*lines, *filter(None, [self.legend()])])


def is_share(metric: MetricValue) -> bool:
    """Whether a metric is a share of examples: it has a chance level or ties, or says so."""
    return metric.share or metric.chance is not None or metric.ties is not None


def format_value(value: float | None, *, share: bool, signed: bool = False) -> str:
    """Format a number; a dash for None."""
    if value is None:
        return "–"
    sign = "+" if signed else ""
    return f"{100 * value:{sign}.2f}" if share else f"{value:{sign}.3f}"


def format_interval(
    bounds: tuple[float, float] | None, *, share: bool, signed: bool = False
) -> str:
    """Format an interval; a dash for None."""
    if bounds is None:
        return "–"
    low, high = (format_value(bound, share=share, signed=signed) for bound in bounds)
    return f"{low} to {high}"


def format_p_value(p: float) -> str:
    """Format a p-value, never as a bare zero."""
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def format_number(value: float | None, form: str = ".3g") -> str:
    """Format a number that is no share; a dash for None."""
    return "–" if value is None else f"{value:{form}}".replace("-", "−")


def format_percent(value: float | None) -> str:
    """Format a share in per cent with one digit; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f}"


def format_bounds(bounds: Sequence[float] | None, form: str = ".2g", scale: float = 1.0) -> str:
    """Format an interval of numbers that are no shares, times a scale; a dash for None."""
    if bounds is None:
        return "–"
    low, high = (format_number(scale * bound, form) for bound in bounds)
    return f"{low} to {high}"


def strongest(values: Sequence[Mapping[str, float]], most: int) -> list[str]:
    """Keys with the largest absolute values in any mapping, in their original order."""
    keys = list(values[0])
    size = {key: max(abs(some[key]) for some in values) for key in keys}
    largest = set(sorted(keys, key=lambda key: -size[key])[:most])
    return [key for key in keys if key in largest]


def format_metric(metric: MetricValue | None, digits: int = 2) -> str:
    """Format a share in per cent, or another value, with its interval; a dash for None."""
    if metric is None:
        return "–"
    scale, digits = (100, digits) if is_share(metric) else (1, 3)
    numbers = (metric.value, *(metric.ci95 or ()))
    value, *bounds = (f"{scale * number:.{digits}f}" for number in numbers)
    return f"{value} ({'–'.join(bounds)})" if bounds else f"{value} (–)"


NO_GOAL = {"brittleness", "original_only", "positive_only", "false_recall", "r1_drop", "yes_share"}
"""Metrics that may have a chance level, and of which more is not better."""


def mark_values(
    values: Mapping[int, MetricValue], metric: str = "", *, best: bool = True
) -> dict[int, Mark]:
    """Marks of values of one metric: below chance, or best within noise.

    A value is below chance where its interval ends under it, and best within noise where its
    interval reaches the highest of several values. Metrics of `NO_GOAL` have no marks.

    Args:
        values: by any key, such as the run's position.
        metric: its name; empty where more is known to be better.
        best: whether the best are marked too.
    """
    if metric in NO_GOAL:
        return {}
    marks: dict[int, Mark] = {}
    most = max((value.value for value in values.values()), default=0.0)
    for i, value in values.items():
        high = value.ci95[1] if value.ci95 else value.value
        if value.chance is not None and value.ci95 and high < value.chance:
            marks[i] = "below"
        elif best and len(values) > 1 and high >= most:
            marks[i] = "best"
    return marks


def metric_words(name: str) -> str:
    """Name of a metric in words."""
    return name.replace("_", " ")


def list_notes(runs: Sequence[Results]) -> list[str]:
    """Notes of the runs, each with its model and score unless all runs of a benchmark have it."""
    having: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        for note in dict.fromkeys(run.notes):
            named = " ".join(filter(None, (run.model, run.score)))
            having.setdefault((run.benchmark, note), []).append(f" ({named})" if named else "")
    counts = Counter(run.benchmark for run in runs)
    return [
        f"Note on {benchmark}{label}: {note}."
        for (benchmark, note), labels in having.items()
        for label in ([""] if 1 < len(labels) == counts[benchmark] else labels)
    ]
