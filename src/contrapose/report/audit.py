"""Terminal tables of an audit: accuracy of blind scores per part, histograms, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.report.results import format_compact
from contrapose.report.tables import Table, format_interval, format_p_value, format_value
from contrapose.results import MetricValue
from contrapose.results.schema import WHOLE, AuditReport, BlindResult, LikelihoodPart, ScoreSpread

MAX_PARTS = 40
"""Parts that a table shows."""

HEIGHTS = "▁▂▃▄▅▆▇█"
HISTOGRAM_WIDTH = 20
"""Characters of a histogram."""


def audit_tables(report: AuditReport) -> list[Table | str]:
    """Output of `contrapose audit`."""
    parts: list[Table | str] = []
    if report.scores:
        left = len(report.parts) - MAX_PARTS - 1
        parts.append(accuracy_table(report))
        parts += [f"The first parts; --json has {left:,} more."] if left > 0 else []
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
        found = [_part_metrics(score, part.name) for score in report.scores]
        for metric in dict.fromkeys(name for each in found for name in each):
            values = [each.get(metric) for each in found]
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
    return "".join(HEIGHTS[round(top * each / most)] if each else " " for each in sums)


def accuracy_table(report: AuditReport) -> Table:
    """Table of every score on every part (the first of many); stars mark above chance."""
    rows = metric_rows(report)
    shown = {part.name for part in report.parts[: MAX_PARTS + 1]}
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
        if name in shown
    )
    title = (
        f"{report.benchmark} · {report.aggregation} · right in % without looking, with 95 % "
        "intervals · * above chance · 85t: 85 % tied, and ties never win"
    )
    header = ("<part", *(("<metric",) if several else ()), "n", "chance")
    return Table(title, (*header, *(score.label for score in report.scores)), cells)


def _accuracy_cell(value: MetricValue | None) -> str:
    above = value is not None and value.chance is not None and value.ci95[0] > value.chance
    tied = (
        ""
        if value is None or not value.ties or value.ties < 0.005
        else f" {_format_ties(value.ties)}"
    )
    return f"{format_compact(value)}{'*' if above else ' '}{tied}"


def _format_ties(share: float) -> str:
    return f"{100 * share:.0f}t"


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
    return Table("How the scores of right and wrong captions are spread", header, tuple(rows))


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
        "examples · p corrected by Holm over parts"
    )
    header = (
        "<part", "n", "chance", "likelihood", "blind", "<best blind", "difference",
        "95 % interval", "p (Holm)", "where blind is wrong", "<verdict",
    )  # fmt: skip
    return Table(title, header, rows)


def _likelihood_row(part: LikelihoodPart) -> tuple[str, ...]:
    return (
        part.part,
        f"{part.likelihood.n:,}",
        format_value(part.likelihood.chance, share=True),
        format_compact(part.likelihood),
        format_compact(part.blind),
        part.by,
        format_value(part.difference, share=True, signed=True),
        format_interval(part.ci95, share=True, signed=True),
        format_p_value(part.p_holm),
        format_compact(part.where_wrong),
        part.verdict,
    )


def _part_metrics(score: BlindResult, part: str) -> dict[str, MetricValue]:
    return score.metrics if part == WHOLE else score.subsets.get(part, {})
