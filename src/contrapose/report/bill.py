"""The bill of a repair as a table and a sentence."""

from __future__ import annotations

from contrapose.report.numbers import interval, p_value, written
from contrapose.report.tables import Table
from contrapose.tune.bill.bill import Bill

NUMBERS = ("equivariance", "equivariance_sd", "right_score")
"""What is no share of examples."""


def bill_table(bill: Bill) -> list[Table | str]:
    """What `contrapose tune` prints at its end."""
    rows = []
    for item in bill.items:
        share = item.name.removeprefix("itm_") not in NUMBERS
        rows.append(
            (
                f"{item.name}{' ↓' if item.better == 'lower' else ''}",
                written(item.before, share=share),
                written(item.after, share=share),
                written(item.difference, share=share, signed=True),
                interval(item.ci95, share=share, signed=True),
                f"{item.n:,}",
                p_value(item.p_holm),
                item.verdict,
            )
        )
    title = f"The bill · {bill.model} with {bill.objective} · on {bill.source}"
    header = (
        "<measure", "before", "after", "change", "95 % interval", "n", "p (Holm)", "<verdict",
    )  # fmt: skip
    said = [
        f"{word.capitalize()}: {', '.join(names)}."
        for word in ("better", "worse")
        if (names := [item.name for item in bill.items if item.verdict == word])
    ]
    notes = [f"Note: {note}." for note in bill.notes]
    return [Table(title, header, tuple(rows)), *(said or ["No evidence of any change."]), *notes]
