"""A sweep of heads as tables: retrieval by τ, deltas by τ and λ."""

from __future__ import annotations

from contrapose.report.numbers import interval, written
from contrapose.report.tables import Table
from contrapose.tune.heads import Sweep, Value

WAYS = {"text_to_image": "text → image", "image_to_text": "image → text"}
KS = (1, 5, 10)


def heads_tables(sweep: Sweep) -> list[Table | str]:
    """What `contrapose tune heads` prints at its end."""
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
        found = run.measured.retrieval
        for way, words in WAYS.items():
            values = [_cell(found[f"{way}_r{k}"]) for k in KS]
            rows.append((f"{run.tau:g}", words, *values, f"{run.seconds:.1f}"))
        rows.append((f"{run.tau:g}", "mean of six", _cell(found["mean_recall"]), "", "", ""))
    chances = [
        written(sweep.runs[0].measured.retrieval[f"text_to_image_r{k}"].chance, share=True)
        for k in KS
        if sweep.runs[0].measured is not None
    ]
    parts: list[Table | str] = [
        Table(title, ("τ", "<way", "R@1", "R@5", "R@10", "seconds"), tuple(rows)),
        f"Chance, text → image: {', '.join(chances)} %.",
    ]
    return [*parts, *_deltas(sweep)]


def _deltas(sweep: Sweep) -> list[Table | str]:
    rows = [
        (f"{run.tau:g}", f"{scale:g}", *(_cell(values[f"r{k}"]) for k in KS))
        for run in sweep.runs
        if run.measured is not None
        for scale, values in run.measured.deltas.items()
    ]
    if not rows:
        return []
    title = "Deltas · image + λ · (nearest caption of another image − own caption) → that image"
    return [Table(title, ("τ", "λ", "R@1", "R@5", "R@10"), tuple(rows))]


def _cell(value: Value) -> str:
    bounds = interval((value.low, value.high), share=True).replace(" to ", "–")
    return f"{written(value.value, share=True)} ({bounds})"
