"""Cost of a job: GPU hours, storage and requests, from the rates of the docs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.arrays import Ragged
from contrapose.engine import AnswerStore
from contrapose.engine.part_writer import MAX_WRITE_INTERVAL, WRITE_BYTES
from scalejob.made import float_values, pair_ids

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one model: its rate, seconds on one GPU, bytes in the store, inputs it is given."""

    model: str
    rate: str
    seconds: float
    stored: float
    inputs: float


def print_cost(pairs: int) -> None:
    """Print the Markdown table of costs."""
    print(f"{pairs:,} pairs, every caption in one pair; one H200\n")
    print("| model, score | captions an image | images | rate | GPU hours | decoding, core hours | "
          "store | parts | model inputs |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    decoding = decoding_seconds()
    for captions in (2, 5):
        for cost in (dual_encoder(pairs, captions), *pair_models(pairs, captions)):
            parts = max(1, round(max(cost.seconds / MAX_WRITE_INTERVAL, cost.stored / WRITE_BYTES)))
            images = pairs // captions
            print(
                f"| {cost.model} | {captions} | {images:,} | {cost.rate} | "
                f"{cost.seconds / 3600:,.0f} | {images * decoding / 3600:,.0f} | "
                f"{cost.stored / 1e9:,.1f} GB | {parts:,} | {cost.inputs:,.0f} |"
            )


def dual_encoder(pairs: int, captions: int) -> Cost:
    """ViT-L/14: all time of the measured job counts as its images'."""
    row = table_row("hardware.md", "one H200, 16 cores | CLIP ViT-L/14 | bf16")
    seconds = float(re.findall(r"[\d.]+", row[3])[0])
    images, job_captions = measured_job()
    if captions > job_captions / images:
        raise SystemExit("the measured job has fewer captions an image")
    rate = images / seconds
    stored = pairs * (1 + 1 / captions) * stored_bytes("vector")
    label = f"at least {rate:,.0f} images a second"
    return Cost(
        "ViT-L/14, `itc`", label, pairs / captions / rate, stored, pairs * (1 + 1 / captions)
    )


def measured_job() -> tuple[int, int]:
    """Images and captions of the job that docs/hardware.md measures on the GPU."""
    jobs = re.findall(r"([\d,]+) images and ([\d,]+) captions", read_doc("hardware.md"))
    images, captions = max((int(a.replace(",", "")), int(b.replace(",", ""))) for a, b in jobs)
    return images, captions


def decoding_seconds() -> float:
    """Seconds of one core to decode and resize an image."""
    seconds = re.search(r"decoding \(([\d.]+) s of one core", read_doc("hardware.md"))
    if seconds is None:
        raise SystemExit("docs/hardware.md does not say how long decoding takes")
    return float(seconds[1]) / measured_job()[0]


def pair_models(pairs: int, captions: int) -> Iterator[Cost]:
    """BLIP-large and LLaVA-1.5-7B: pairs a second at so many captions an image."""
    for name, label, columns in (
        ("BLIP-large", "BLIP-large, `itm` at the rate of `lm`", "value"),
        ("LLaVA-1.5-7B", "LLaVA-1.5-7B, `lm`", "logprobs"),
    ):
        row = table_row("likelihoods.md", f"{name}, {captions} captions an image")
        rate = float(row[1].replace(",", ""))
        yield Cost(
            label, f"{rate:,.0f} pairs a second", pairs / rate, pairs * stored_bytes(columns), pairs
        )


def read_doc(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def table_row(page: str, start: str) -> list[str]:
    """Return the cells of the row of a docs page's table that begins so."""
    for line in read_doc(page).splitlines():
        if line.startswith(f"| {start}"):
            return [cell.strip() for cell in line.strip().strip("|").split("|")]
    raise SystemExit(f"docs/{page} has no row {start!r}")


def stored_bytes(kind: str, rows: int = 50_000) -> float:
    """Bytes of a row in a part: one score, one with 12 token log-probabilities, or a vector."""
    draw = np.random.default_rng(0)
    columns: dict[str, Any] = {"value": float_values(draw, rows)}
    images, texts = pair_ids(0, rows)
    if kind == "vector":
        columns = {"vector": draw.normal(size=(rows, 768)).astype(np.float32)}
        images = [""] * rows
    elif kind == "logprobs":
        tokens = draw.normal(size=12 * rows).astype(np.float32)
        columns |= {"sum": 12 * columns["value"], "tokens": np.full(rows, 12.0)}
        columns["logprobs"] = Ragged(tokens, np.arange(0, 12 * rows + 1, 12))
    with tempfile.TemporaryDirectory() as folder:
        AnswerStore(Path(folder)).table("made", kind).add(images, texts, columns)
        return sum(file.stat().st_size for file in Path(folder).rglob("*.parquet")) / rows
