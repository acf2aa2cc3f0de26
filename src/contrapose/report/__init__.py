"""Reports for people: tables in a terminal, plain text in a pipe, HTML pages."""

from contrapose.report.results import (
    comparison_table,
    evaluation_tables,
    parts_table,
    results_tables,
)
from contrapose.report.tables import Table, show

__all__ = [
    "Table",
    "comparison_table",
    "evaluation_tables",
    "parts_table",
    "results_tables",
    "show",
]
