"""Tables of `contrapose eval`: metrics × runs, with the runs as rows where they are many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from contrapose.errors import option
from contrapose.report.alpha import alphas_table, run_alphas
from contrapose.report.results import (
    MAX_PARTS,
    METRIC_COLUMNS,
    metric_cells,
    row_metric,
    strict_changes,
    tie_words,
)
from contrapose.report.tables import (
    Mark,
    Table,
    format_metric,
    format_value,
    is_share,
    list_notes,
    mark_values,
)
from contrapose.results import MetricValue, Results
from contrapose.results.measures import CORRELATIONS

STRICT = "all, strict"
HEADLINES = ("all", STRICT)
"""Rows of the benchmark as a whole."""
MAX_COLUMNS = 6
"""Runs that are columns of a table; more become its rows."""


def evaluation_tables(runs: Sequence[Results], *, every: bool = False) -> list[Table | str]:
    """Output of `contrapose eval`: tables of each benchmark, its priors, then notes.

    Args:
        runs: in the order of their columns.
        every: show every metric of every part, not the main one of the largest parts.
    """
    tables: list[Table | str] = []
    for benchmark in dict.fromkeys(run.benchmark for run in runs):
        some = [run for run in runs if run.benchmark == benchmark]
        rows, hidden = _evaluation_rows(some, every=every)
        table = _evaluation_table(some, rows)
        tables += table.narrow if len(some) > MAX_COLUMNS else [table]
        if hidden:
            tables.append(f"The main rows; {option('all', True)} shows {hidden:,} more.")
        if any(map(run_alphas, some)):
            tables.append(alphas_table(some))
        tables += _note_different_examples(some)
    return [*tables, *list_notes(runs)]


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """Metric of a part in every run that has it.

    Attributes:
        part: name of the part; `all` for the benchmark.
        metric: name of the metric.
        main: whether it is the part's main metric, of which more is better.
        values: by the run's position.
    """

    part: str
    metric: str
    main: bool
    values: Mapping[int, MetricValue]

    def marks(self) -> dict[int, Mark]:
        """Runs whose value is below chance, or, of main metrics, best within noise."""
        return mark_values(self.values, self.metric, best=self.main)


def _evaluation_rows(runs: Sequence[Results], *, every: bool) -> tuple[list[EvaluationRow], int]:
    """Rows of a benchmark, the headline first, and how many more there are."""
    cells: dict[tuple[str, str], dict[int, MetricValue]] = {}
    mains: dict[str, str] = {}
    changed = {name for run in runs for name in strict_changes(run)}
    for i, run in enumerate(runs):
        strict = {name: value for name, value in run.strict.items() if name in changed}
        beside = [(STRICT, strict)] if strict else []
        for part, metrics in (("all", run.metrics), *beside, *_top_parts(run)):
            main = mains.setdefault(part, row_metric(metrics))
            shares = [
                name for name, value in metrics.items() if is_share(value) or name in CORRELATIONS
            ]
            log = run.scores and run.score  # whose metrics are all its own
            names = metrics if log else shares or metrics
            for name in sorted(names, key=lambda name: name != main):
                cells.setdefault((part, name), {})[i] = metrics[name]
    rows = [
        EvaluationRow(part, name, name == mains[part] and _has_chance(values), values)
        for (part, name), values in sorted(cells.items(), key=lambda row: _part_order(row[0], runs))
    ]
    if every:
        return rows, 0
    shown = [row for row in rows if row.part in HEADLINES or row.metric == mains[row.part]]
    parts = [row for row in shown if row.part not in HEADLINES]
    if len(parts) > MAX_PARTS:
        largest = sorted(parts, key=lambda row: -max(value.n for value in row.values.values()))[
            :MAX_PARTS
        ]
        shown = [row for row in shown if row.part in HEADLINES or row in largest]
    return shown, len(rows) - len(shown)


def _has_chance(values: Mapping[int, MetricValue]) -> bool:
    return all(value.chance is not None for value in values.values())


def _evaluation_table(runs: Sequence[Results], rows: Sequence[EvaluationRow]) -> Table:
    """Table of metrics × runs with intervals; its narrow form has the runs as rows."""
    plain = any(not is_share(value) for row in rows for value in row.values.values())
    unit = "shares in %, other values as they are" if plain else "%"
    title = (
        f"{runs[0].benchmark} · {runs[0].aggregation} · {unit} with 95 % interval · "
        f"{tie_words(runs)}"
    )
    wide = _cross_table(title, runs, rows, intervals=True)
    if len(runs) == 1:
        return wide
    parts = [row for row in rows if row.part not in HEADLINES]
    values = _cross_table("The parts · %, without intervals", runs, parts, intervals=False)
    turned = _turned_table("The parts · %, without intervals", runs, parts)
    values = replace(values, narrow=(turned,))
    headline = replace(
        _runs_table(runs, [row for row in rows if row.part in HEADLINES]), title=title
    )
    second = turned if len(runs) > MAX_COLUMNS else values
    return replace(wide, narrow=(headline, second) if parts else (headline,))


def _cross_table(
    title: str, runs: Sequence[Results], rows: Sequence[EvaluationRow], *, intervals: bool
) -> Table:
    """Table with one row per metric and one column per run.

    Each run has columns of its number of examples where these differ, and of ties where there are.
    """
    counts = any(len({value.n for value in row.values.values()}) > 1 for row in rows)
    tied = [i for i in range(len(runs)) if any(_is_tied(row.values.get(i)) for row in rows)]
    header = ["<part", "<metric", *([] if counts else ["n"]), "chance"]
    columns: dict[int, int] = {}
    for i, name in enumerate(run_names(runs)):
        columns[i] = len(header)
        header += [name, *(["n"] if counts else []), *(["ties"] if i in tied else [])]
    cells: list[tuple[str, ...]] = []
    marks: dict[tuple[int, int], Mark] = {}
    for number, row in enumerate(rows):
        one = next(iter(row.values.values()))
        line = [row.part, row.metric, *([] if counts else [f"{one.n:,}"])]
        line.append(format_value(one.chance, share=True))
        for i in range(len(runs)):
            value = row.values.get(i)
            line.append(format_metric(value) if intervals else _bare_value(value))
            line += [f"{value.n:,}" if value else "–"] if counts else []
            line += [format_value(value.ties if value else None, share=True)] if i in tied else []
        cells.append(tuple(line))
        marks |= {(number, columns[i]): mark for i, mark in row.marks().items()}
    several = len({row.part for row in rows}) < len(rows)
    drop = ("ties", "n", "chance", *(() if several else ("metric",)))
    return Table(title, tuple(header), tuple(cells), marks=marks, drop=drop)


def _turned_table(title: str, runs: Sequence[Results], rows: Sequence[EvaluationRow]) -> Table:
    """Table with one row per run and one column per part and metric, without intervals."""
    several = len({row.part for row in rows}) < len(rows)
    header = (
        "<model, score", *(f"{row.part} {row.metric}" if several else row.part for row in rows)
    )  # fmt: skip
    cells = tuple(
        (name, *(_bare_value(row.values.get(i)) for row in rows))
        for i, name in enumerate(run_names(runs))
    )
    marks = {(i, k + 1): mark for k, row in enumerate(rows) for i, mark in row.marks().items()}
    chances = ("chance", *(_bare_chance(row) for row in rows))
    return Table(title, header, (*cells, chances), marks=marks)


def _runs_table(runs: Sequence[Results], rows: Sequence[EvaluationRow]) -> Table:
    """Table with one row per metric of the benchmark and run, the runs of a metric together."""
    names = run_names(runs)
    some = [(row, i, value) for row in rows for i, value in row.values.items()]
    tied = any(_is_tied(value) for _, _, value in some)
    columns = METRIC_COLUMNS if tied else METRIC_COLUMNS[:-1]
    cells = tuple(
        (names[i], _headline_metric(row), *metric_cells(value)[: len(columns)])
        for row, i, value in some
    )
    marks = {
        (number, 2): mark
        for number, (row, i, _) in enumerate(some)
        if (mark := row.marks().get(i)) is not None
    }
    header = ("<model, score", "<metric", *columns)
    return Table("", header, cells, marks=marks, drop=("ties", "n", "chance"))


def _headline_metric(row: EvaluationRow) -> str:
    return f"{row.metric} (strict)" if row.part == STRICT else row.metric


def _is_tied(value: MetricValue | None) -> bool:
    return value is not None and bool(value.ties)


def _bare_value(value: MetricValue | None) -> str:
    return "–" if value is None else format_value(value.value, share=is_share(value))


def _bare_chance(row: EvaluationRow) -> str:
    return format_value(next(iter(row.values.values())).chance, share=True)


def run_names(runs: Sequence[Results]) -> list[str]:
    """Distinct names of runs: model and score, or the name of the score file."""
    names = [_run_name(run, Path(run.scores or "").name) for run in runs]
    if len(set(names)) < len(names):
        names = [_run_name(run, run.scores or "") for run in runs]
    return names


def _run_name(run: Results, scores: str) -> str:
    return " ".join(word for word in (run.model or scores, run.score) if word) or run.benchmark


def _note_different_examples(runs: Sequence[Results]) -> list[str]:
    """Note that runs of one benchmark are over different numbers of examples."""
    if len({run.skipped.examples if run.skipped else 0 for run in runs}) == 1:
        return []
    return [
        f"Note on {runs[0].benchmark}: the runs skipped different numbers of examples, so their "
        f"columns are over different ones (n of each); {option('common', True)} measures all "
        "on the same."
    ]


def _top_parts(run: Results) -> list[tuple[str, dict[str, MetricValue]]]:
    """Parts of a run without parts of a suite's parts, which only the JSON output lists."""
    return [
        (name, metrics)
        for name, metrics in run.subsets.items()
        if name.partition("/")[0] == name or name.partition("/")[0] not in run.subsets
    ]


def _part_order(key: tuple[str, str], runs: Sequence[Results]) -> int:
    """Position of a part in the first run that has it; the headline comes first."""
    if key[0] in HEADLINES:
        return HEADLINES.index(key[0]) - len(HEADLINES)
    for run in runs:
        if key[0] in run.subsets:
            return list(run.subsets).index(key[0])
    return len(runs)
