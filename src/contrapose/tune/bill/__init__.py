"""What tuning bought and what it cost: the same questions before and after, compared in pairs."""

from contrapose.tune.bill.bill import Bill, Item, bill
from contrapose.tune.bill.measure import Line, Measurer
from contrapose.tune.bill.panel import Panel, Trial

__all__ = ["Bill", "Item", "Line", "Measurer", "Panel", "Trial", "bill"]
