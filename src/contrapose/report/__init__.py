"""Reports for people: tables in a terminal, plain text in a pipe."""

from contrapose.report.audit import audit_tables
from contrapose.report.catalog import (
    card_lines,
    cards_table,
    data_report_json,
    data_report_parts,
    families_json,
    families_table,
    model_report_json,
    model_report_parts,
    scores_json,
    scores_table,
    suite_lines,
)
from contrapose.report.results import (
    changes_table,
    comparison_table,
    evaluation_tables,
    results_tables,
)
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
