"""HTML reports in one file: tables, SVG plots, and the worst failures."""

from contrapose.report.html.failure_cards import BenchmarkCase, Failure, worst_failures
from contrapose.report.html.report import (
    HtmlReport,
    render_report,
    report_from_runs,
    selection_cases,
    write_report,
)

__all__ = [
    "BenchmarkCase",
    "Failure",
    "HtmlReport",
    "render_report",
    "report_from_runs",
    "selection_cases",
    "worst_failures",
    "write_report",
]
