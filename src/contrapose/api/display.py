"""Results as a notebook shows them: tables as HTML, and a plot as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from contrapose.report.html.page import element, escape, render_table
from contrapose.report.html.report import accuracy_plot
from contrapose.report.html.svg import extract_svg
from contrapose.report.results import headline_table, parts_table
from contrapose.report.tables import Table
from contrapose.results.schema import Results


def render_tables(runs: Sequence[Results]) -> str:
    """HTML tables of the headline metrics and of every part, benchmark by benchmark."""
    tables = []
    for benchmark in dict.fromkeys(run.benchmark for run in runs):
        some = [run for run in runs if run.benchmark == benchmark]
        tables.append(render_table(headline_table(some)))
        if any(run.subsets for run in some):
            tables.append(render_table(parts_table(some)))
    return "".join(tables)


def render_parts(parts: Iterable[Table | str]) -> str:
    """HTML of tables and sentences, in the order in which the command line prints them."""
    return "".join(
        render_table(part) if isinstance(part, Table) else element("p", escape(part))
        for part in parts
    )


def draw_accuracies(runs: Sequence[Results]) -> str:
    """SVG of the accuracy of every part, with intervals and chance, and its own style sheet."""
    return extract_svg(accuracy_plot(runs))
