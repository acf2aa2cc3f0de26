"""A comparison of two runs as a table and a sentence."""

from __future__ import annotations

from contrapose.report.numbers import interval, p_value, written
from contrapose.report.tables import Table
from contrapose.results import Comparison


def comparison_table(comparison: Comparison) -> list[Table | str]:
    """What `contrapose compare` prints."""
    rows = tuple(
        (
            name,
            written(change.a, share=change.share),
            written(change.b, share=change.share),
            written(change.difference, share=change.share, signed=True),
            interval(change.ci95, share=change.share, signed=True),
            f"{change.n:,}",
            p_value(change.p),
            p_value(change.p_holm),
            change.test,
            change.verdict,
        )
        for name, change in comparison.metrics.items()
    )
    header = (
        "<metric", "A", "B", "B − A", "95 % interval", "n", "p", "p (Holm)", "<test", "<verdict",
    )  # fmt: skip
    title = f"{comparison.benchmark} · A = {comparison.a} · B = {comparison.b}"
    worse = [name for name, change in comparison.metrics.items() if change.verdict == "worse"]
    better = [name for name, change in comparison.metrics.items() if change.verdict == "better"]
    level = f"at the {comparison.level:g} level after Holm's correction"
    if worse or better:
        said = [f"B is {word} on {', '.join(names)}" for word, names in
                (("worse", worse), ("better", better)) if names]  # fmt: skip
        sentence = f"{' and '.join(said)}, {level}."
    else:
        sentence = f"No significant difference {level}."
    notes = [f"Note: {note}." for note in comparison.notes]
    return [Table(title, header, rows), sentence, *notes]
