"""Showing results to people: tables in a terminal, plain text in a pipe."""

from contrapose.report.audit import audit_tables
from contrapose.report.benchmarks import card_lines, cards_table, suite_lines
from contrapose.report.changes import changes_table
from contrapose.report.comparison import comparison_table
from contrapose.report.data import data_report_json, data_report_parts
from contrapose.report.evaluation import evaluation_tables
from contrapose.report.models import (
    families_json,
    families_table,
    model_report_json,
    model_report_parts,
    scores_json,
    scores_table,
)
from contrapose.report.results import results_tables
from contrapose.report.tables import Table, show

__all__ = [
    "Table",
    "audit_tables",
    "card_lines",
    "cards_table",
    "changes_table",
    "comparison_table",
    "data_report_json",
    "data_report_parts",
    "evaluation_tables",
    "families_json",
    "families_table",
    "model_report_json",
    "model_report_parts",
    "results_tables",
    "scores_json",
    "scores_table",
    "show",
    "suite_lines",
]
