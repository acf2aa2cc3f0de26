"""Terminal tables of tuning: the before-and-after comparison, and head sweeps."""

from __future__ import annotations

from collections.abc import Sequence

from contrapose.report.explorer.page import ReportFiles
from contrapose.report.html.examples import build_examples_page
from contrapose.report.html.page import (
    element,
    escape,
    render_footer,
    render_section,
    render_table,
)
from contrapose.report.tables import Mark, Table, format_interval, format_p_value, format_value
from contrapose.results import RunRecord
from contrapose.results.schema import MetricValue
from contrapose.tune.heads.sweep import Sweep
from contrapose.tune.report import Bill


def bill_table(bill: Bill) -> list[Table | str]:
    """Table of the before-and-after comparison, printed at the end of `contrapose tune`."""
    rows = []
    for item in bill.items:
        share = item.share
        rows.append(
            (
                f"{item.name}{' ↓' if item.better == 'lower' else ''}",
                format_value(item.before, share=share),
                format_value(item.after, share=share),
                format_value(item.difference, share=share, signed=True),
                format_interval(item.ci95, share=share, signed=True),
                f"{item.n:,}",
                format_p_value(item.p_holm),
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
    marks: dict[tuple[int, int], Mark] = {
        (i, len(header) - 1): item.verdict
        for i, item in enumerate(bill.items)
        if item.verdict in ("worse", "better")
    }
    table = Table(
        title, header, tuple(rows), marks=marks, drop=("n", "p (Holm)", "before", "after")
    )
    return [table, *(said or ["No evidence of any change."]), *notes]


def build_tuning_page(bill: Bill, records: Sequence[RunRecord]) -> ReportFiles:
    """Build the page of a tuning run: the bill, and the examples before and after."""
    content = [
        element("p", escape(part)) if isinstance(part, str) else render_table(part)
        for part in bill_table(bill)
    ]
    introduction = (
        "The same examples before and after, pair by pair. A is the model before; the examples "
        "below start with those that were right before and are wrong now, if there are any."
    )
    sections = [render_section("The bill", introduction, *content)]
    half = len(records) // 2
    start = {"b": half, "sort": "loss", "outcome": "right-wrong"} if half else {}
    title = f"{bill.model} tuned with {bill.objective}"
    return build_examples_page(title, "", sections, render_footer(()), records, start=start)


DIRECTIONS = {"text_to_image": "text → image", "image_to_text": "image → text"}
KS = (1, 5, 10)


def heads_tables(sweep: Sweep) -> list[Table | str]:
    """Tables printed at the end of `contrapose tune heads`."""
    counts = sweep.counts
    learnt = f"{counts['train_captions']:,} captions of {counts['train_images']:,} images"
    if "test_images" not in counts:
        trained = ", ".join(
            f"τ = {run.tau:g}: loss {run.trained.losses[-1]:.3f} in {run.seconds:.1f} s"
            for run in sweep.runs
        )
        return [f"Learnt from {learnt} ({trained}); no test features, so nothing was measured."]
    where = f"{counts['test_captions']:,} captions of {counts['test_images']:,} images"
    kind = sweep.runs[0].trained.settings.kind
    title = f"Heads ({kind}) · learnt from {learnt} · measured on {where} · in %, 95 % interval"
    rows = []
    for run in sweep.runs:
        if run.measured is None:
            continue
        retrieval = run.measured.retrieval
        for way, words in DIRECTIONS.items():
            values = [_recall_cell(retrieval[f"{way}_r{k}"]) for k in KS]
            rows.append((f"{run.tau:g}", words, *values, f"{run.seconds:.1f}"))
        rows.append(
            (f"{run.tau:g}", "mean of six", _recall_cell(retrieval["mean_recall"]), "", "", "")
        )
    chances = [
        format_value(sweep.runs[0].measured.retrieval[f"text_to_image_r{k}"].chance, share=True)
        for k in KS
        if sweep.runs[0].measured is not None
    ]
    parts: list[Table | str] = [
        Table(title, ("τ", "<way", "R@1", "R@5", "R@10", "seconds"), tuple(rows)),
        f"Chance, text → image: {', '.join(chances)} %.",
    ]
    return [*parts, *_delta_tables(sweep)]


def delta_curves(sweep: Sweep) -> dict[str, list[tuple[float, float]]]:
    """R@10 of the deltas by λ, for each temperature."""
    return {
        f"τ = {run.tau:g}": [
            (scale, values["r10"].value) for scale, values in sorted(run.measured.deltas.items())
        ]
        for run in sweep.runs
        if run.measured is not None
    }


def _delta_tables(sweep: Sweep) -> list[Table | str]:
    rows = [
        (f"{run.tau:g}", f"{scale:g}", *(_recall_cell(values[f"r{k}"]) for k in KS))
        for run in sweep.runs
        if run.measured is not None
        for scale, values in run.measured.deltas.items()
    ]
    if not rows:
        return []
    title = "Deltas · image + λ · (nearest caption of another image − own caption) → that image"
    return [Table(title, ("τ", "λ", "R@1", "R@5", "R@10"), tuple(rows))]


def _recall_cell(value: MetricValue) -> str:
    bounds = format_interval(value.ci95, share=True).replace(" to ", "–")
    return f"{format_value(value.value, share=True)} ({bounds})"
