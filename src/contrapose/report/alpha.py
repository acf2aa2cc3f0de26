"""Tables of language priors taken out: raw, α = 1, cross-validated and oracle."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.report.tables import Table, format_value
from contrapose.results import AlphaReport, AlphaValue, Results

ALPHA_COLUMNS = ("raw (α=0)", "α=1", "cross-validated", "oracle (tuned on test)")


def run_alphas(run: Results) -> dict[str, AlphaReport]:
    """α sweeps of a run by part; `all` is the benchmark."""
    return ({"all": run.alpha} if run.alpha is not None else {}) | run.part_alphas


def _alpha_cells(value: AlphaValue) -> tuple[str, str, str, str]:
    raw, pmi, tuned, std, oracle = (
        format_value(share, share=True)
        for share in (value.raw, value.pmi, value.cross_validated, value.std, value.oracle)
    )
    return raw, pmi, f"{tuned} ± {std}", oracle


def alphas_table(runs: Sequence[Results]) -> Table:
    """Table of the metric that selects α, for each part of each debiased run."""
    rows = []
    for run in runs:
        for part, alpha in run_alphas(run).items():
            *cells, oracle = _alpha_cells(alpha.metrics[alpha.chosen_by])
            mean = f"{sum(alpha.alphas) / len(alpha.alphas):.2f}"
            best = f"{alpha.oracle_alpha:.2f}"
            name = f"{run.model} {run.score}"
            rows.append((name, part, alpha.chosen_by, *cells, mean, oracle, best))
    *columns, oracle_column = ALPHA_COLUMNS
    header = (
        "<model, score", "<part", "<metric", *columns, "its α", oracle_column, "oracle's α",
    )  # fmt: skip
    title = f"{runs[0].benchmark} · language prior taken out · % right, ± sd of ten halves"
    drop = ("oracle's α", oracle_column, "its α", "metric")
    return Table(title, header, tuple(rows), drop=drop)


def alpha_table(alpha: AlphaReport) -> Table:
    """Table of every metric of one α sweep."""
    low, high = alpha.oracle_segment
    mean = sum(alpha.alphas) / len(alpha.alphas)
    title = (
        f"Language prior taken out, α chosen by {alpha.chosen_by}: cross-validated mean "
        f"α = {mean:.3f}; oracle α = {alpha.oracle_alpha:.4f} (as good: {low:.4f} to {high:.4f})"
    )
    rows = tuple((name, *_alpha_cells(value)) for name, value in alpha.metrics.items())
    return Table(title, ("<metric", *ALPHA_COLUMNS), rows, drop=ALPHA_COLUMNS[-1:])
