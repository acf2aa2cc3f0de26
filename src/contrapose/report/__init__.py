"""Reports for people: tables in a terminal, plain text in a pipe, HTML pages."""

from contrapose.report.comparison import comparison_table
from contrapose.report.evaluation import evaluation_tables
from contrapose.report.results import (
    parts_table,
    results_tables,
)
from contrapose.report.tables import Table
from contrapose.report.terminal import show

__all__ = [
    "Table",
    "comparison_table",
    "evaluation_tables",
    "parts_table",
    "results_tables",
    "show",
]
