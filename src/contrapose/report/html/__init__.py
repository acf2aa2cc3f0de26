"""A whole evaluation as one HTML file: tables, plots drawn as SVG, and the worst failures."""

from contrapose.report.html.failures import Case, Failure, worst_failures
from contrapose.report.html.gather import cases_of, gather
from contrapose.report.html.page import Report, render_report, write_report

__all__ = [
    "Case",
    "Failure",
    "Report",
    "cases_of",
    "gather",
    "render_report",
    "worst_failures",
    "write_report",
]
