"""Report of an audit: terminal tables of blind scores, and the HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.errors import option
from contrapose.metrics import solvable_blind
from contrapose.report.explorer.page import ReportFiles
from contrapose.report.html.examples import build_examples_page
from contrapose.report.html.page import (
    element,
    escape,
    render_footer,
    render_list,
    render_section,
    render_table,
)
from contrapose.report.html.plots import Dot, DotRow, dot_plot, histogram_plot
from contrapose.report.results import MAX_PARTS
from contrapose.report.tables import (
    Table,
    format_interval,
    format_metric,
    format_p_value,
    format_value,
    metric_words,
)
from contrapose.results import MetricValue, RunRecord
from contrapose.results.schema import WHOLE, AuditReport, BlindResult, LikelihoodPart, ScoreSpread

HEIGHTS = "▁▂▃▄▅▆▇█"
HISTOGRAM_WIDTH = 20
"""Characters of a histogram."""


def audit_tables(report: AuditReport) -> list[Table | str]:
    """Output of `contrapose audit`."""
    parts: list[Table | str] = []
    if report.scores:
        left = len(report.parts) - MAX_PARTS - 1
        parts.append(accuracy_table(report))
        parts += [f"The first parts; {option('json')} has {left:,} more."] if left > 0 else []
        parts += [f"{score.label}: {score.meaning}." for score in report.scores]
        parts.append(_spread_table(report.scores))
    if report.likelihoods:
        parts.append(likelihood_table(report))
    parts += report.verdict
    return [*parts, *(f"Note: {note}." for note in report.notes)]


def metric_rows(
    report: AuditReport,
) -> list[tuple[str, str, float, int, list[MetricValue | None]]]:
    """Rows per part and metric: part, metric, chance, n, and every score's value."""
    rows = []
    for part in report.parts:
        by_score = [
            score.metrics if part.name == WHOLE else score.subsets.get(part.name, {})
            for score in report.scores
        ]
        for metric in dict.fromkeys(name for metrics in by_score for name in metrics):
            values = [metrics.get(metric) for metrics in by_score]
            known = [value for value in values if value is not None]
            if known[0].chance is not None:
                n = max(value.n for value in known)
                rows.append((part.name, metric, known[0].chance, n, values))
    return rows


def histogram_bars(counts: Sequence[int]) -> str:
    """Histogram in one line of text; empty bins are spaces."""
    step = max(1, len(counts) // HISTOGRAM_WIDTH)
    sums = [sum(counts[i : i + step]) for i in range(0, len(counts), step)]
    most = max(sums, default=0)
    if not most:
        return " " * len(sums)
    top = len(HEIGHTS) - 1
    return "".join(HEIGHTS[round(top * count / most)] if count else " " for count in sums)


def accuracy_table(report: AuditReport) -> Table:
    """Table of every score on every part (the first of many); stars mark above chance."""
    rows = metric_rows(report)
    first = {part.name for part in report.parts[: MAX_PARTS + 1]}
    several = len({metric for _, metric, _, _, _ in rows}) > 1
    cells = tuple(
        (
            name,
            *((metric,) if several else ()),
            f"{n:,}",
            format_value(chance, share=True),
            *(_accuracy_cell(value) for value in values),
        )
        for name, metric, chance, n, values in rows
        if name in first
    )
    title = (
        f"{report.benchmark} · {report.aggregation} · right in % without looking, with 95 % "
        "intervals · * above chance · 85t: 85 % tied, and ties never win"
    )
    header = ("<part", *(("<metric",) if several else ()), "n", "chance")
    labels = tuple(score.label for score in report.scores)
    return Table(title, (*header, *labels), cells, drop=("n", "chance"))


def _accuracy_cell(value: MetricValue | None) -> str:
    cell = format_metric(value, digits=1)
    if value is None:
        return f"{cell} "
    above = solvable_blind(value.ci95, value.chance)
    tied = f" {100 * value.ties:.0f}t" if value.ties and value.ties >= 0.005 else ""
    return f"{cell}{'*' if above else ' '}{tied}"


def _spread_table(scores: Sequence[BlindResult]) -> Table:
    rows = []
    for score in scores:
        spread = score.spread
        low, high = f"{spread.edges[0]:.2f}", f"{spread.edges[-1]:.2f}"
        for side, counts in (("right", spread.right), ("wrong", spread.wrong)):
            mean = f"{histogram_mean(spread, counts):.2f}"
            rows.append(
                (score.label, side, f"{sum(counts):,}", mean, low, histogram_bars(counts), high)
            )
    header = ("<scores of", "<captions", "n", "mean", "from", "<histogram", "to")
    title = "How the scores of right and wrong captions are spread"
    return Table(title, header, tuple(rows), drop=("to", "from", "n"))


def histogram_mean(spread: ScoreSpread, counts: Sequence[int]) -> float:
    """Mean of a histogram, with every bin at its middle."""
    middles = [(a + b) / 2 for a, b in zip(spread.edges, spread.edges[1:], strict=False)]
    total = sum(counts) or 1
    return sum(middle * count for middle, count in zip(middles, counts, strict=True)) / total


def likelihood_table(report: AuditReport) -> Table:
    """Table of a captioner's likelihood beside the best blind score of every part."""
    rows = tuple(_likelihood_row(part) for part in report.likelihoods)
    title = (
        f"{report.likelihoods_from} beside the best score that never looks · means over "
        "examples · paired tests, p corrected by Holm over parts · where blind is wrong: for "
        "information, chance is not 50 % there"
    )
    header = (
        "<part", "n", "chance", "likelihood", "blind", "<best blind", "difference",
        "95 % interval", "p (Holm)", "where blind is wrong", "<verdict",
    )  # fmt: skip
    drop = ("where blind is wrong", "chance", "p (Holm)", "n", "95 % interval", "best blind")
    return Table(title, header, rows, drop=drop)


def _likelihood_row(part: LikelihoodPart) -> tuple[str, ...]:
    return (
        part.part,
        f"{part.likelihood.n:,}",
        format_value(part.likelihood.chance, share=True),
        format_metric(part.likelihood, digits=1),
        format_metric(part.blind, digits=1),
        part.by,
        format_value(part.difference, share=True, signed=True),
        format_interval(part.ci95, share=True, signed=True),
        format_p_value(part.p_holm),
        format_metric(part.where_wrong, digits=1),
        part.verdict,
    )


AXES = {"length": "words, negative", "blind-sum": "log P of the caption"}
"""Axis labels of histograms, where they are not the log-probability of a token."""


def build_audit_page(report: AuditReport, records: Sequence[RunRecord] = ()) -> ReportFiles:
    """Build the HTML page: verdict, accuracies, examples, histograms, likelihoods beside them.

    Args:
        report: the audit.
        records: the examples of each blind score.
    """
    sections = [
        render_section(
            "Verdict", "", *(element("p", escape(sentence)) for sentence in report.verdict)
        ),
        render_section(
            "Right without looking",
            "Every score here sees the captions alone. An interval above chance means that the "
            "part measures its captions as much as a model.",
            _accuracy_dots(report),
            render_table(accuracy_table(report)),
            render_list(f"{score.label}: {score.meaning}." for score in report.scores),
        ),
        render_section(
            "Right and wrong captions",
            "Where the two outlines lie apart, what is right can be told by reading alone.",
            element("div", *map(_score_histogram, report.scores), class_="pair")
            if report.scores
            else "",
        ),
        render_section(
            "A likelihood beside them",
            "Where a captioner's likelihood is above chance and no better than the best score "
            "that never looks, or only follows it, it wins by its prior alone. Doing better is no "
            "proof of looking: its own prior may know more than the scores here.",
            render_table(likelihood_table(report)),
        ),
    ]
    title = f"Can {report.benchmark} be solved without looking?"
    lead = f"{report.examples:,} examples; {report.aggregation}; no image was opened."
    footer = render_footer(
        (f"{note}." for note in report.notes), resamples=report.resamples, seed=report.seed
    )
    return build_examples_page(title, lead, sections, footer, records, first=2)


def _accuracy_dots(report: AuditReport) -> str:
    labels = [score.label for score in report.scores]
    rows = [
        DotRow(
            name,
            {
                label: Dot(value.value, *(value.ci95 or (value.value, value.value)))
                for label, value in zip(labels, values, strict=True)
                if value is not None
            },
            chance,
            "" if metric in ("accuracy", "average") else metric_words(metric),
        )
        for name, metric, chance, _, values in metric_rows(report)
    ]
    return dot_plot("Right without looking", rows, labels)


def _score_histogram(score: BlindResult) -> str:
    label = AXES.get(score.score, "log P of a word or token, mean")
    spread = score.spread
    return histogram_plot(score.label, spread.edges, spread.right, spread.wrong, label)
