"""HTML reports: tables, SVG plots, and an explorer of the examples, without requests."""

from contrapose.report.html.failure_cards import Failure, worst_failures
from contrapose.report.html.report import build_report, render_results, render_runs, write_report

__all__ = [
    "Failure",
    "build_report",
    "render_results",
    "render_runs",
    "worst_failures",
    "write_report",
]
