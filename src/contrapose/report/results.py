"""Terminal tables of results: headline, parts, language prior, models side by side, comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contrapose.report.tables import Table, format_interval, format_p_value, format_value, is_share
from contrapose.results import AlphaReport, Comparison, MetricValue, Results
from contrapose.results.summary import AVERAGE, MAIN_METRICS

PART_METRICS = (*MAIN_METRICS.values(), AVERAGE, "mean_recall")
"""Metrics that can stand for a part, the first that it has."""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """Row of one part of a benchmark: its main metric in every run.

    Attributes:
        part: its name.
        metric: the metric that stands for it.
        values: by the run's label; runs that were not asked about it are left out.
    """

    part: str
    metric: str
    values: Mapping[str, MetricValue]

    @property
    def metric_words(self) -> str:
        """Metric in words, unless it is plain accuracy."""
        return "" if self.metric in ("accuracy", AVERAGE) else self.metric.replace("_", " ")

    @property
    def label(self) -> str:
        """Part, with its metric unless that is plain accuracy."""
        return f"{self.part} ({self.metric_words})" if self.metric_words else self.part

    @property
    def chance(self) -> float | None:
        """Chance level."""
        return next((value.chance for value in self.values.values()), None)


def run_label(run: Results) -> str:
    """Label of a run: model and score, or the file of its scores."""
    words = (run.model, run.score) if run.model else (run.scores,)
    return " · ".join(word for word in words if word) or run.benchmark


def change_rows(runs: Sequence[Results]) -> list[ChangeRow]:
    """Rows of all parts of the runs, in the runs' order; without parts of parts."""
    parts: dict[str, dict[str, Mapping[str, MetricValue]]] = {}
    for run in runs:
        for part, metrics in run.subsets.items():
            if part.rpartition("/")[0] not in run.subsets:
                parts.setdefault(part, {})[run_label(run)] = metrics
    found = []
    for part, by_run in parts.items():
        metric = main_metric(next(iter(by_run.values())))
        values = {label: metrics[metric] for label, metrics in by_run.items() if metric in metrics}
        if values:
            found.append(ChangeRow(part, metric, values))
    return found


def overall_row(runs: Sequence[Results]) -> ChangeRow | None:
    """Row of the headline metric of every run."""
    metric = main_metric(runs[0].metrics) if runs else ""
    values = {run_label(run): run.metrics[metric] for run in runs if metric in run.metrics}
    return ChangeRow(AVERAGE if metric == AVERAGE else "all", metric, values) if values else None


def main_metric(metrics: Mapping[str, MetricValue]) -> str:
    """Main metric of a part: its family's, or the first share."""
    shares = (name for name, value in metrics.items() if is_share(value))
    return next((name for name in PART_METRICS if name in metrics), None) or next(
        shares, next(iter(metrics), "")
    )


def changes_table(runs: Sequence[Results]) -> Table:
    """Table with one row per change and one column per run, with intervals."""
    labels = [run_label(run) for run in runs]
    last = overall_row(runs)
    rows = tuple(
        (
            change.label,
            "–" if change.chance is None else f"{100 * change.chance:.1f}",
            *(format_compact(change.values.get(label)) for label in labels),
        )
        for change in (*change_rows(runs), *([last] if last else []))
    )
    names = ", ".join(dict.fromkeys(run.benchmark for run in runs))
    title = f"{names} · right in %, with 95 % intervals · ties never win"
    return Table(title, ("<change", "chance", *labels), rows)


def format_compact(value: MetricValue | None) -> str:
    """Format a share with its interval, briefly."""
    if value is None:
        return "–"
    low, high = value.ci95
    return f"{100 * value.value:.1f} ({100 * low:.1f}–{100 * high:.1f})"


ALPHA_HEADER = (
    "<model, score",
    "<part",
    "<metric",
    "raw (α=0)",
    "α=1",
    "cross-validated",
    "its α",
    "oracle (tuned on test)",
    "its α",
)


def alphas_table(runs: Sequence[Results]) -> Table:
    """Table of the metric that selects α, for each part of each debiased run."""
    rows = []
    for run in runs:
        whole = {"all": run.alpha} if run.alpha is not None else {}
        for part, alpha in (whole | run.part_alphas).items():
            rows.append((f"{run.model} {run.score}", part, *_alpha_cells(alpha)))
    title = f"{runs[0].benchmark} · language prior taken out · % right, ± sd of ten halves"
    return Table(title, ALPHA_HEADER, tuple(rows))


def _alpha_cells(alpha: AlphaReport) -> tuple[str, ...]:
    value = alpha.metrics[alpha.chosen_by]
    mean = sum(alpha.alphas) / len(alpha.alphas)
    tuned = format_value(value.cross_validated, share=True)
    return (
        alpha.chosen_by,
        format_value(value.raw, share=True),
        format_value(value.pmi, share=True),
        f"{tuned} ± {format_value(value.std, share=True)}",
        f"{mean:.2f}",
        format_value(value.oracle, share=True),
        f"{alpha.oracle_alpha:.2f}",
    )


def evaluation_tables(runs: Sequence[Results]) -> list[Table | str]:
    """Output of `contrapose eval`: one table per benchmark, its priors, then notes."""
    tables: list[Table | str] = []
    for benchmark in dict.fromkeys(run.benchmark for run in runs):
        some = [run for run in runs if run.benchmark == benchmark]
        tables.append(_evaluation_table(some))
        if any(run.alpha or run.part_alphas for run in some):
            tables.append(alphas_table(some))
    notes = dict.fromkeys(
        f"Note on {run.benchmark} ({run.model} {run.score}): {note}."
        for run in runs
        for note in run.notes
    )
    return [*tables, *notes]


def _evaluation_table(runs: Sequence[Results]) -> Table:
    """Table of the headline, then every part, with intervals; shares in per cent."""
    cells: dict[tuple[str, str], dict[int, MetricValue]] = {}
    for i, run in enumerate(runs):
        for part, metrics in (("all", run.metrics), *_top_parts(run)):
            for name, value in metrics.items():
                if is_share(value) or value.chance is not None or _has_no_share(metrics):
                    cells.setdefault((part, name), {})[i] = value
    rows = []
    for (part, name), values in sorted(cells.items(), key=lambda item: _part_order(item[0], runs)):
        one = next(iter(values.values()))
        rows.append(
            (
                part,
                name,
                f"{max(value.n for value in values.values()):,}",
                format_value(one.chance, share=True),
                *(_evaluation_cell(values.get(i)) for i in range(len(runs))),
            )
        )
    title = f"{runs[0].benchmark} · {runs[0].aggregation} · % with 95 % interval · ties never win"
    names = tuple(f"{run.model} {run.score}" for run in runs)
    return Table(title, ("<part", "<metric", "n", "chance", *names), tuple(rows))


def _top_parts(run: Results) -> list[tuple[str, dict[str, MetricValue]]]:
    """Parts of a run without parts of a suite's parts, which only --json lists."""
    return [
        (name, metrics)
        for name, metrics in run.subsets.items()
        if name.partition("/")[0] == name or name.partition("/")[0] not in run.subsets
    ]


def _has_no_share(metrics: dict[str, MetricValue]) -> bool:
    """Whether no metric is a share with a chance level, so that all are shown."""
    return not any(is_share(value) for value in metrics.values())


def _part_order(key: tuple[str, str], runs: Sequence[Results]) -> int:
    """Position of a part in the first run that has it; the headline comes first."""
    if key[0] == "all":
        return -1
    for run in runs:
        if key[0] in run.subsets:
            return list(run.subsets).index(key[0])
    return len(runs)


def _evaluation_cell(value: MetricValue | None) -> str:
    if value is None:
        return "–"
    low_high = format_interval(value.ci95, share=True).replace(" to ", "–")
    return f"{format_value(value.value, share=True)} ({low_high})"


def results_tables(results: Results) -> list[Table | str]:
    """Output of `contrapose metrics`."""
    parts: list[Table | str] = [
        _headline_table(results),
        *(_part_tables(results.subsets) if results.subsets else []),
        *([_alpha_table(results.alpha)] if results.alpha else []),
    ]
    return [*parts, *(f"Note: {note}." for note in results.notes)]


def _headline_table(results: Results) -> Table:
    ties = "ties never win" if results.protocol == "strict" else "official protocol"
    title = f"{results.benchmark} · {results.examples:,} examples · {results.aggregation} · {ties}"
    rows = []
    for name, metric in results.metrics.items():
        share = is_share(metric)
        rows.append(
            (
                name,
                format_value(metric.value, share=share),
                format_interval(metric.ci95, share=share),
                f"{metric.n:,}",
                format_value(metric.chance, share=share),
                format_value(metric.ties, share=share),
            )
        )
    header = ("<metric", "value", "95 % interval", "n", "chance", "ties")
    return Table(title, header, tuple(rows))


MAX_PARTS = 40
"""Parts that a table shows; ARO's attributes come in hundreds."""


def _part_tables(subsets: dict[str, dict[str, MetricValue]]) -> list[Table | str]:
    """Table with one row per part and one column per metric; only the largest of many parts."""
    left = len(subsets) - MAX_PARTS
    if left > 0:
        largest = sorted(subsets, key=lambda name: -_part_size(subsets[name]))[:MAX_PARTS]
        subsets = {name: subsets[name] for name in largest}
    shown = list(
        dict.fromkeys(
            name
            for metrics in subsets.values()
            for name, value in metrics.items()
            if is_share(value)
        )
    )
    rows = []
    for subset, metrics in subsets.items():
        cells = [subset, f"{_part_size(metrics):,}"]
        for name in shown:
            metric = metrics.get(name)
            if metric is None:
                cells.append("–")
            else:
                low_high = format_interval(metric.ci95, share=True).replace(" to ", "–")
                cells.append(f"{format_value(metric.value, share=True)} ({low_high})")
        rows.append(tuple(cells))
    table = Table("", ("<part", "n", *shown), tuple(rows))
    return [table, f"The largest parts; --json has {left:,} more."] if left > 0 else [table]


def _part_size(metrics: dict[str, MetricValue]) -> int:
    return max((metric.n for metric in metrics.values()), default=0)


def _alpha_table(alpha: AlphaReport) -> Table:
    low, high = alpha.oracle_segment
    rows = [
        (
            name,
            format_value(value.raw, share=True),
            format_value(value.pmi, share=True),
            f"{format_value(value.cross_validated, share=True)} ± "
            f"{format_value(value.std, share=True)}",
            format_value(value.oracle, share=True),
        )
        for name, value in alpha.metrics.items()
    ]
    chosen = sum(alpha.alphas) / len(alpha.alphas)
    title = (
        f"Language prior taken out, α chosen by {alpha.chosen_by}: cross-validated mean "
        f"α = {chosen:.3f}; oracle α = {alpha.oracle_alpha:.4f} (as good: {low:.4f} to {high:.4f})"
    )
    header = ("<metric", "raw (α=0)", "α=1", "cross-validated", "oracle (tuned on test)")
    return Table(title, header, tuple(rows))


def comparison_table(comparison: Comparison) -> list[Table | str]:
    """Output of `contrapose compare`."""
    rows = tuple(
        (
            name,
            format_value(change.a, share=change.share),
            format_value(change.b, share=change.share),
            format_value(change.difference, share=change.share, signed=True),
            format_interval(change.ci95, share=change.share, signed=True),
            f"{change.n:,}",
            format_p_value(change.p),
            format_p_value(change.p_holm),
            change.test,
            change.verdict,
        )
        for name, change in comparison.metrics.items()
    )
    header = (
        "<metric", "A", "B", "B − A", "95 % interval", "n", "p", "p (Holm)", "<test", "<verdict",
    )  # fmt: skip
    title = f"{comparison.benchmark} · A = {comparison.a} · B = {comparison.b}"
    worse = [name for name, change in comparison.metrics.items() if change.verdict == "worse"]
    better = [name for name, change in comparison.metrics.items() if change.verdict == "better"]
    level = f"at the {comparison.level:g} level after Holm's correction"
    if worse or better:
        said = [f"B is {word} on {', '.join(names)}" for word, names in
                (("worse", worse), ("better", better)) if names]  # fmt: skip
        sentence = f"{' and '.join(said)}, {level}."
    else:
        sentence = f"No significant difference {level}."
    notes = [f"Note: {note}." for note in comparison.notes]
    return [Table(title, header, rows), sentence, *notes]
