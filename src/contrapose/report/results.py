"""Results as tables: the headline with its intervals, then every part."""

from __future__ import annotations

from contrapose.report.numbers import interval, is_share, written
from contrapose.report.tables import Table
from contrapose.results import AlphaReport, MetricValue, Results


def results_tables(results: Results) -> list[Table | str]:
    """What `contrapose metrics` prints."""
    parts: list[Table | str] = [
        _headline(results),
        *(_breakdown(results.subsets) if results.subsets else []),
        *([_alpha(results.alpha)] if results.alpha else []),
    ]
    return [*parts, *(f"Note: {note}." for note in results.notes)]


def _headline(results: Results) -> Table:
    ties = "ties never win" if results.protocol == "strict" else "official protocol"
    title = f"{results.benchmark} · {results.examples:,} examples · {results.aggregation} · {ties}"
    rows = []
    for name, metric in results.metrics.items():
        share = is_share(metric)
        rows.append(
            (
                name,
                written(metric.value, share=share),
                interval(metric.ci95, share=share),
                f"{metric.n:,}",
                written(metric.chance, share=share),
                written(metric.ties, share=share),
            )
        )
    header = ("<metric", "value", "95 % interval", "n", "chance", "ties")
    return Table(title, header, tuple(rows))


MOST_PARTS = 40
"""Parts that a table shows; ARO's attributes come in hundreds."""


def _breakdown(subsets: dict[str, dict[str, MetricValue]]) -> list[Table | str]:
    """A row a part, a column a metric; of very many parts the largest, and how many are left."""
    left = len(subsets) - MOST_PARTS
    if left > 0:
        largest = sorted(subsets, key=lambda name: -_examples(subsets[name]))[:MOST_PARTS]
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
        cells = [subset, f"{_examples(metrics):,}"]
        for name in shown:
            metric = metrics.get(name)
            if metric is None:
                cells.append("–")
            else:
                low_high = interval(metric.ci95, share=True).replace(" to ", "–")
                cells.append(f"{written(metric.value, share=True)} ({low_high})")
        rows.append(tuple(cells))
    table = Table("", ("<part", "n", *shown), tuple(rows))
    return [table, f"The largest parts; --json has {left:,} more."] if left > 0 else [table]


def _examples(metrics: dict[str, MetricValue]) -> int:
    return max((metric.n for metric in metrics.values()), default=0)


def _alpha(alpha: AlphaReport) -> Table:
    low, high = alpha.oracle_segment
    rows = [
        (
            name,
            written(value.raw, share=True),
            written(value.pmi, share=True),
            f"{written(value.cross_validated, share=True)} ± {written(value.std, share=True)}",
            written(value.oracle, share=True),
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
