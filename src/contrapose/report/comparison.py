"""Tables of comparisons: two runs, or several against one baseline."""

from __future__ import annotations

from contrapose.report.tables import Mark, Table, format_interval, format_p_value, format_value
from contrapose.results import Comparison
from contrapose.results.compare import TOO_FEW
from contrapose.results.schema import BaselineComparisons

NO_DIFFERENCE = "no significant difference"


def comparison_table(comparison: Comparison) -> list[Table | str]:
    """Output of `contrapose compare`."""
    rows = tuple(
        (
            f"{name} ↓" if change.better == "lower" else name,
            format_value(change.a, share=change.share),
            format_value(change.b, share=change.share),
            format_value(change.difference, share=change.share, signed=True),
            format_interval(change.ci95, share=change.share, signed=True),
            f"{change.n:,}",
            *(
                "–" if change.test == TOO_FEW else format_p_value(p)
                for p in (change.p, change.p_holm)
            ),
            change.test,
            change.verdict if change.verdict != NO_DIFFERENCE else "not significant",
        )
        for name, change in comparison.metrics.items()
    )
    header = (
        "<metric", "A", "B", "B − A", "95 % interval", "n", "p", "p (Holm)", "<test", "<verdict",
    )  # fmt: skip
    title = f"{comparison.benchmark} · A = {comparison.a} · B = {comparison.b}"
    level = f"at the {comparison.level:g} level after Holm's correction"
    by_verdict = {
        verdict: [name for name, change in comparison.metrics.items() if change.verdict == verdict]
        for verdict in ("worse", "better", "lower", "higher")
    }
    verdicts = [
        f"B is {verdict} on {', '.join(names)}" for verdict, names in by_verdict.items() if names
    ]
    sentence = (
        f"{' and '.join(verdicts)}, {level}." if verdicts else f"No significant difference {level}."
    )
    notes = [f"Note: {note}." for note in comparison.notes]
    if any(change.better == "lower" for change in comparison.metrics.values()):
        notes.insert(0, "↓: lower is better.")
    column = len(header) - 1
    marks: dict[tuple[int, int], Mark] = {
        (i, column): change.verdict
        for i, change in enumerate(comparison.metrics.values())
        if change.verdict in ("worse", "better")
    }
    drop = ("test", "p", "n", "A", "B")
    return [Table(title, header, rows, marks=marks, drop=drop), sentence, *notes]


def comparisons_tables(comparisons: BaselineComparisons) -> list[Table | str]:
    """Output of `contrapose compare` with several candidates: a summary, then a table of each."""
    some = comparisons.comparisons
    names = list(dict.fromkeys(name for one in some for name in one.metrics))
    rows: list[tuple[str, ...]] = []
    marks: dict[tuple[int, int], Mark] = {}
    for i, one in enumerate(some):
        cells = [one.b]
        for k, name in enumerate(names, 1):
            change = one.metrics.get(name)
            difference = change.difference if change else None
            cells.append(format_value(difference, share=bool(change and change.share), signed=True))
            if change and change.verdict in ("worse", "better"):
                marks[i, k] = change.verdict
        rows.append(tuple(cells))
    title = (
        f"{some[0].benchmark} · differences from A = {some[0].a} · ▲ better and ▼ worse at the "
        f"{some[0].level:g} level, after Holm's correction over all tests"
    )
    summary = Table(title, ("<candidate", *names), tuple(rows), marks=marks)
    return [summary, *(part for one in some for part in comparison_table(one))]
