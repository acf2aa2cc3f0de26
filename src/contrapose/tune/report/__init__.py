"""Comparison of a model before and after tuning, tested pair by pair."""

from contrapose.tune.report.measurement import Bill, BillItem, Line, Measurer, make_bill
from contrapose.tune.report.panels import EvaluationPanel, Trial

__all__ = ["Bill", "BillItem", "EvaluationPanel", "Line", "Measurer", "Trial", "make_bill"]
