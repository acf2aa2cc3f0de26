"""HTML reports in one file each: tables, SVG plots and cards, without scripts or requests."""

from contrapose.report.html.failure_cards import Failure, worst_failures
from contrapose.report.html.report import render_results, render_runs, write_report

__all__ = ["Failure", "render_results", "render_runs", "worst_failures", "write_report"]
