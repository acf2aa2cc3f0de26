"""Tables of results: headline, parts, language prior, skipped examples, comparison of runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from contrapose.errors import option
from contrapose.report.alpha import alpha_table, alphas_table, run_alphas
from contrapose.report.tables import (
    Table,
    format_interval,
    format_metric,
    format_p_value,
    format_percent,
    format_value,
    is_share,
    list_notes,
    metric_words,
)
from contrapose.results import Comparison, MetricValue, Results, shapes
from contrapose.results.compare import TOO_FEW
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
        metric = _row_metric(next(iter(by_run.values())))
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
    metric = _row_metric(runs[0].metrics) if runs else ""
    values = {run_label(run): run.metrics[metric] for run in runs if metric in run.metrics}
    return PartRow(AVERAGE if metric == AVERAGE else "all", metric, values) if values else None


def _row_metric(metrics: Mapping[str, MetricValue]) -> str:
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
    title = f"{names} · right in %, with 95 % intervals · ties never win"
    return Table(title, ("<change", "n", "chance", *labels), rows, total=last is not None)


METRIC_COLUMNS = ("value", "95 % interval", "n", "chance", "ties")


def _metric_cells(metric: MetricValue) -> tuple[str, ...]:
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
        (run_label(run), metric_words(name), *_metric_cells(metric))
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
        (run_label(run), part, metric_words(name), *_metric_cells(metric))
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


def evaluation_tables(runs: Sequence[Results]) -> list[Table | str]:
    """Output of `contrapose eval`: one table per benchmark, its priors, then notes."""
    tables: list[Table | str] = []
    for benchmark in dict.fromkeys(run.benchmark for run in runs):
        some = [run for run in runs if run.benchmark == benchmark]
        tables.append(_evaluation_table(some))
        if any(map(run_alphas, some)):
            tables.append(alphas_table(some))
        tables += _note_different_examples(some)
    return [*tables, *list_notes(runs)]


def _tie_words(runs: Sequence[Results]) -> str:
    """Tie rule of runs in words."""
    strict = all(run.protocol == "strict" for run in runs)
    return "ties never win" if strict else "official protocol"


def _evaluation_table(runs: Sequence[Results]) -> Table:
    """Table of the headline, then every part, with intervals; shares in per cent."""
    cells: dict[tuple[str, str], dict[int, MetricValue]] = {}
    for i, run in enumerate(runs):
        beside = [("all, strict", run.strict)] if run.strict else []
        for part, metrics in (("all", run.metrics), *beside, *_top_parts(run)):
            shares = [name for name, value in metrics.items() if is_share(value)]
            for name in metrics if run.scores else shares or metrics:  # a log's are all its own
                cells.setdefault((part, name), {})[i] = metrics[name]
    rows = [
        (
            part,
            name,
            _count_cell(values, range(len(runs))),
            format_value(next(iter(values.values())).chance, share=True),
            *(format_metric(values.get(i)) for i in range(len(runs))),
        )
        for (part, name), values in sorted(cells.items(), key=lambda row: _part_order(row[0], runs))
    ]
    plain = any(not is_share(value) for values in cells.values() for value in values.values())
    unit = "shares in %, other values as they are" if plain else "%"
    title = (
        f"{runs[0].benchmark} · {runs[0].aggregation} · {unit} with 95 % interval · "
        f"{_tie_words(runs)}"
    )
    names = tuple(f"{run.model} {run.score}" for run in runs)
    return Table(title, ("<part", "<metric", "n", "chance", *names), tuple(rows))


Column = TypeVar("Column")


def _count_cell(values: Mapping[Column, MetricValue], runs: Iterable[Column]) -> str:
    """Number of examples of a row; that of each run, in their order, where they differ."""
    counts = [f"{value.n:,}" for value in values.values()]
    if len(set(counts)) == 1:
        return counts[0]
    return " / ".join(f"{values[run].n:,}" if run in values else "–" for run in runs)


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
    if key[0] in ("all", "all, strict"):
        return -2 if key[0] == "all" else -1
    for run in runs:
        if key[0] in run.subsets:
            return list(run.subsets).index(key[0])
    return len(runs)


EQUIVARIANCE = {
    f"equivariance_{side}_{kind}" for side in ("text", "image") for kind in ("std", "mean_abs")
}
EQUIVARIANCE_NOTE = (
    "Note: equivariance is in standard deviations of the model's scores within the part of its "
    "row (lower is better); a mean over parts is of values that are standardized part by part."
)


def results_tables(results: Results) -> list[Table | str]:
    """Output of `contrapose metrics`."""
    title = (
        f"{results.benchmark} · {results.examples:,} examples · {results.aggregation} · "
        f"{_tie_words([results])}"
    )
    strict = ("strict",) if results.strict else ()
    rows = tuple(
        (name, *_metric_cells(metric), *(_strict_cell(results, name) for _ in strict))
        for name, metric in results.metrics.items()
    )
    return [
        Table(title, ("<metric", *METRIC_COLUMNS, *strict), rows),
        *(_part_tables(results.subsets) if results.subsets else []),
        *([alpha_table(results.alpha)] if results.alpha else []),
        *([EQUIVARIANCE_NOTE] if EQUIVARIANCE & results.metrics.keys() else []),
        *(f"Note: {note}." for note in results.notes),
    ]


def _part_tables(subsets: Mapping[str, Mapping[str, MetricValue]]) -> list[Table | str]:
    """Tables with one row per part and one column per metric; only the largest of many parts.

    Shares stand in the first table, other values in the second.
    """
    left = len(subsets) - MAX_PARTS
    if left > 0:
        largest = sorted(subsets, key=lambda name: -_part_size(subsets[name].values()))[:MAX_PARTS]
        subsets = {name: subsets[name] for name in largest}
    tables: list[Table | str] = []
    for share in (True, False):
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
        tables += [Table("", ("<part", "n", *names), rows)] if names else []
    if left > 0:
        tables.append(f"The largest parts; {option('json')} has {left:,} more.")
    return tables


def _part_counts(metrics: Iterable[MetricValue]) -> str:
    """Number of examples of a part; all numbers where metrics are of different ones."""
    return " / ".join(dict.fromkeys(f"{metric.n:,}" for metric in metrics))


def _part_size(metrics: Iterable[MetricValue]) -> int:
    return max((metric.n for metric in metrics), default=0)


def comparison_table(comparison: Comparison) -> list[Table | str]:
    """Output of `contrapose compare`."""
    rows = tuple(
        (
            f"{name} ↓" if change.better == "lower" else name,
            format_value(change.a, share=change.share),
            format_value(change.b, share=change.share),
            format_value(change.difference, share=change.share, signed=True),
            format_interval(change.ci95, share=change.share, signed=True),
            f"{change.n:,}",
            *(
                "–" if change.test == TOO_FEW else format_p_value(p)
                for p in (change.p, change.p_holm)
            ),
            change.test,
            change.verdict,
        )
        for name, change in comparison.metrics.items()
    )
    header = (
        "<metric", "A", "B", "B − A", "95 % interval", "n", "p", "p (Holm)", "<test", "<verdict",
    )  # fmt: skip
    title = f"{comparison.benchmark} · A = {comparison.a} · B = {comparison.b}"
    level = f"at the {comparison.level:g} level after Holm's correction"
    by_verdict = {
        verdict: [name for name, change in comparison.metrics.items() if change.verdict == verdict]
        for verdict in ("worse", "better", "lower", "higher")
    }
    verdicts = [
        f"B is {verdict} on {', '.join(names)}" for verdict, names in by_verdict.items() if names
    ]
    sentence = (
        f"{' and '.join(verdicts)}, {level}." if verdicts else f"No significant difference {level}."
    )
    notes = [f"Note: {note}." for note in comparison.notes]
    if any(change.better == "lower" for change in comparison.metrics.values()):
        notes.insert(0, "↓: lower is better.")
    return [Table(title, header, rows), sentence, *notes]
