"""What taking the language prior out comes to, for a terminal: a row a part."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.report.numbers import written
from contrapose.report.tables import Table
from contrapose.results import AlphaReport, Results

HEADER = (
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
    """The metric that α is chosen by, of every part of every run with a prior taken out."""
    rows = []
    for run in runs:
        whole = {"all": run.alpha} if run.alpha is not None else {}
        for part, alpha in (whole | run.part_alphas).items():
            rows.append((f"{run.model} {run.score}", part, *_cells(alpha)))
    title = f"{runs[0].benchmark} · language prior taken out · % right, ± sd of ten halves"
    return Table(title, HEADER, tuple(rows))


def _cells(alpha: AlphaReport) -> tuple[str, ...]:
    value = alpha.metrics[alpha.chosen_by]
    mean = sum(alpha.alphas) / len(alpha.alphas)
    tuned = written(value.cross_validated, share=True)
    return (
        alpha.chosen_by,
        written(value.raw, share=True),
        written(value.pmi, share=True),
        f"{tuned} ± {written(value.std, share=True)}",
        f"{mean:.2f}",
        written(value.oracle, share=True),
        f"{alpha.oracle_alpha:.2f}",
    )
