"""HTML pages of other reports (audit, diagnosis, tuning, comparison) with their examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contrapose.report.comparison import comparison_table, comparisons_tables
from contrapose.report.explorer.columns import distinguish_runs
from contrapose.report.explorer.page import ExplorerData, ReportFiles, build_explorer
from contrapose.report.explorer.table import ExampleTable
from contrapose.report.html.page import (
    element,
    escape,
    read_asset,
    render_footer,
    render_origins,
    render_page,
    render_section,
    render_table,
)
from contrapose.report.results import run_label
from contrapose.results import Comparison, RunRecord
from contrapose.results.environment import describe_origin
from contrapose.results.schema import BaselineComparisons


def build_examples_page(
    title: str,
    lead: str,
    sections: Sequence[str],
    footer: str,
    records: Sequence[RunRecord],
    *,
    folder: str = "",
    first: int | None = None,
    start: Mapping[str, Any] | None = None,
) -> ReportFiles:
    """Build a page of sections and of the examples of some runs.

    Args:
        title: heading of the page.
        lead: paragraph below the heading.
        sections: markup.
        footer: markup.
        records: the runs; without any the page has no examples.
        folder: the folder that the page lies in; empty for none.
        first: how many sections stand before the examples; None for all.
        start: first query of the explorer, as `ExampleQuery` has it.
    """
    data = ExplorerData({"total": 0})
    if records:
        table = ExampleTable(distinguish_runs(records), [folder] * len(records))
        data = build_explorer(table, beside=True, start=start)
    has_rows = bool(data.values["total"])
    shown = [*sections]
    shown.insert(len(shown) if first is None else first, read_asset("explorer.html"))
    page = render_page(
        title, lead, shown if has_rows else sections, footer,
        with_script=True, data=data.values if has_rows else None,
    )  # fmt: skip
    return ReportFiles(page, data.images)


def build_comparison(
    values: Comparison | BaselineComparisons,
    records: Sequence[RunRecord],
    names: Sequence[str] = (),
) -> ReportFiles:
    """Build the page of a comparison: the tables, and the examples of all runs side by side.

    Args:
        values: one comparison, or several with one baseline.
        records: the baseline and the runs that are compared with it.
        names: of their files or folders, where their labels are equal; empty for none.
    """
    if isinstance(values, BaselineComparisons):
        first, tables = values.comparisons[0], comparisons_tables(values)
    else:
        first, tables = values, comparison_table(values)
    named = distinguish_runs(records, names)
    content = [
        element("p", escape(part)) if isinstance(part, str) else render_table(part)
        for part in tables
    ]
    labels = [run_label(run.results) for run in named]
    introduction = "Differences are B − A, on the examples that both have; A is the baseline."
    sections = [
        render_section("Comparison", introduction, *content),
        render_origins(labels, [describe_origin(run) for run in named]),
    ]
    footer = render_footer(
        (f"{note}." for note in first.notes), resamples=first.resamples, seed=first.seed
    )
    title = f"{' and '.join(labels)} on {first.benchmark}"
    start = {"b": 1, "sort": "loss", "outcome": "right-wrong"}
    return build_examples_page(title, "", sections, footer, named, first=1, start=start)
