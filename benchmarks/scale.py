"""Cost of 10⁸ pairs: a table from the rates of the docs, and a simulated run of plan and store.

    python benchmarks/scale.py cost [--pairs 100000000]
    python benchmarks/scale.py run [--pairs 1000000 10000000] [--memory 8] [--folder DIR]

`cost` prints GPU hours, storage and requests. Rates are read from the tables of docs/hardware.md
and docs/likelihoods.md; bytes per row are those of a part that is encoded here.

`run` plans, writes and looks up so many pairs without a model. Every step is a process of its own,
whose memory is limited; prints its seconds of processor time and its peak memory, or where it
breaks.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import numpy as np

from contrapose.arrays import Ragged
from contrapose.data import ImageRef
from contrapose.data.example_columns import RefColumn
from contrapose.data.text_columns import TextColumn
from contrapose.engine import AnswerStore
from contrapose.engine.batch_cuts import cut_batches, sort_pairs
from contrapose.engine.pair_index import PairIds, pack_ids
from contrapose.engine.part_files import encode_part
from contrapose.engine.part_writer import MAX_WRITE_INTERVAL, WRITE_BYTES
from contrapose.engine.plan import ScoringPlan, plan_cells
from contrapose.engine.store import AnswerTable

ROOT = Path(__file__).resolve().parent.parent
CAPTIONS_PER_IMAGE = 5
BLOCK = 1_000_000
BATCH_SIZE = 256
GIB = 2**30


# The table of costs


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


# The simulated run


@dataclass(frozen=True, slots=True)
class MadeImage:
    """Source of an image that is never opened."""

    content: str


Timer = Callable[[str], None]


def plan_grid(pairs: int, _folder: Path, timer: Timer) -> None:
    """Plan every pair of √p images with √p captions."""
    side = round(pairs**0.5)
    refs = [made_image(str(i)) for i in range(side)]
    texts = [caption(j) for j in range(side)]
    plan = plan_cells(refs, texts, np.stack(np.divmod(np.arange(side * side), side), axis=1))
    timer("plan")
    cut_plan(plan, timer)


def plan_pairs(pairs: int, _folder: Path, timer: Timer) -> None:
    """Plan pairs with a caption each, five for each image."""
    refs = RefColumn(text_column(-(-pairs // CAPTIONS_PER_IMAGE), str), made_image)
    texts = text_column(pairs, caption)
    cells = np.empty((pairs, 2), dtype=np.int64)
    cells[:, 1] = np.arange(pairs)
    np.floor_divide(cells[:, 1], CAPTIONS_PER_IMAGE, out=cells[:, 0])
    timer("make the input")
    plan = plan_cells(refs, texts, cells)
    timer("plan")
    del cells
    cut_plan(plan, timer)


def made_image(name: str) -> ImageRef:
    return ImageRef(name, source=MadeImage(name))  # type: ignore[arg-type]


def text_column(count: int, text: Callable[[int], str]) -> TextColumn:
    """Make a column of texts, a block at a time: as a reader of files gives them."""
    blocks, sizes = [], []
    for start in range(0, count, BLOCK):
        block = TextColumn.of(list(map(text, range(start, min(start + BLOCK, count)))))
        blocks.append(bytes(block.data))
        sizes.append(block.sizes)
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.concatenate(sizes), out=offsets[1:])
    data = bytearray(int(offsets[-1]))
    end = len(data)
    while blocks:
        data[end - len(blocks[-1]) : end] = blocks[-1]
        end -= len(blocks.pop())
    return TextColumn(data, offsets)


def cut_plan(plan: ScoringPlan, timer: Timer) -> None:
    """Order the pairs of a plan and cut them into batches."""
    lengths = np.full(len(plan.texts), 12)
    order = sort_pairs(plan.pairs, lengths)
    timer("order")
    batches = cut_batches(plan.pairs[order, 0], BATCH_SIZE)
    timer(f"{len(batches):,} batches")


def write(pairs: int, folder: Path, timer: Timer) -> None:
    """Write the pairs in parts of a million, as one run does."""
    table = AnswerStore(folder).table("made", "itm:logit")
    for start in range(0, pairs, BLOCK):
        images, texts = pair_ids(start, min(BLOCK, pairs - start))
        values = float_values(np.random.default_rng(start), len(images))
        table.add(images, texts, {"value": values})
    size = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
    timer(f"write {size / 1e9:.2f} GB")


def fill(pairs: int, folder: Path, timer: Timer) -> None:
    """Write the same parts from packed ids: quicker than `write`, which makes a string of each."""
    table = AnswerStore(folder).table("made", "itm:logit")
    newest = ""
    for start in range(0, pairs, BLOCK):
        count = min(BLOCK, pairs - start)
        images, texts = id_words(start, count)
        codes = np.arange(count, dtype=np.int32) // CAPTIONS_PER_IMAGE
        columns = {"value": float_values(np.random.default_rng(start), count)}
        newest = put_part(table, PairIds(images, codes, texts), columns, newest)
    size = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
    timer(f"write {size / 1e9:.2f} GB")


def put_part(table: AnswerTable, ids: PairIds, columns: dict[str, Any], newest: str) -> str:
    """Write a part as another process does: the table does not hold its rows."""
    name, content, _ = encode_part(
        ids, columns, model=table.model, score=table.score, newest=newest
    )
    if table.storage is not None:
        table.storage.write(table.folder, name, content)
    return name


def look_up(pairs: int, folder: Path, timer: Timer) -> None:
    """Open the table for a million pairs, then find up to three other millions."""
    table = AnswerStore(folder).table("made", "itm:logit")
    for number, start in enumerate(range(0, pairs, max(BLOCK, pairs // 3))):
        images, texts = pair_ids(start // BLOCK * BLOCK, min(BLOCK, pairs - start))
        timer("")
        rows = table.find(images, texts)
        timer("open, find a million" if number == 0 else "find another million")
        values = table.values(rows)
        timer("values of a million")
        check_values(rows, values, start // BLOCK * BLOCK)


def look_up_all(pairs: int, folder: Path, timer: Timer) -> None:
    """Open the table for all of its pairs, of packed ids, and take their scores."""
    table = AnswerStore(folder).table("made", "itm:logit")
    starts = range(0, pairs, BLOCK)
    words = [id_words(start, min(BLOCK, pairs - start)) for start in starts]
    images, texts = (np.concatenate(some) for some in zip(*words, strict=True))
    per_block = -(-BLOCK // CAPTIONS_PER_IMAGE)
    number = np.arange(pairs)
    image = number // BLOCK * per_block + number % BLOCK // CAPTIONS_PER_IMAGE
    asked = np.stack([image, number], axis=1)
    del words, number, image
    timer("make the ids")
    rows = table.find(images, texts, asked)
    timer("open, find all")
    values = table.values(rows)
    timer("values of all")
    for start in starts:
        check_values(rows[start : start + BLOCK], values[start : start + BLOCK], start)


def look_up_share(pairs: int, folder: Path, timer: Timer) -> None:
    """Open the table for the pairs of one shard of a hundred, spread over all parts."""
    table = AnswerStore(folder).table("made", "itm:logit")
    share, starts = BLOCK // 100, range(0, pairs, BLOCK)
    images, texts = (
        np.concatenate([id_words(start, BLOCK)[k][:count].copy() for start in starts])
        for k, count in enumerate((share // CAPTIONS_PER_IMAGE, share))
    )
    number = np.arange(len(texts))
    timer("make the ids")
    rows = table.find(images, texts, np.stack([number // CAPTIONS_PER_IMAGE, number], axis=1))
    timer(f"open, find {len(texts):,}")
    values = table.values(rows)
    for k, start in enumerate(starts):
        check_values(rows[k * share :][:share], values[k * share :][:share], start)


def check_values(rows: Any, values: Any, start: int) -> None:
    """Require the scores that were written."""
    expected = float_values(np.random.default_rng(start), BLOCK)[: len(rows)]
    if (rows < 0).any() or not np.array_equal(values, expected):
        raise SystemExit("a stored pair is not found, or has another score")


VECTORS_PER_PART, VECTOR_WIDTH = 50_000, 768


def write_vectors(inputs: int, folder: Path, timer: Timer) -> None:
    """Write so many vectors of 768 numbers."""
    table = AnswerStore(folder).table("made", "itc:text")
    newest = ""
    for start in range(0, inputs, VECTORS_PER_PART):
        count = min(VECTORS_PER_PART, inputs - start)
        _, texts = id_words(start, count)
        ids = PairIds(pack_ids([""]), np.zeros(count, dtype=np.int32), texts)
        newest = put_part(table, ids, {"vector": made_vectors(start, count)}, newest)
    timer("write")


def take_vectors(inputs: int, folder: Path, timer: Timer) -> None:
    """Open the table of vectors, and take 100,000 of them, spread over all parts."""
    table = AnswerStore(folder).table("made", "itc:text")
    starts = range(0, inputs, VECTORS_PER_PART)
    share = min(VECTORS_PER_PART, max(1, 100_000 // len(starts)))
    texts = np.concatenate([id_words(start, VECTORS_PER_PART)[1][:share] for start in starts])
    pairs = np.stack([np.zeros(len(texts), dtype=np.int64), np.arange(len(texts))], axis=1)
    timer("make the ids")
    table.find([""], [texts[0].tobytes().hex()])
    timer("open")
    rows = table.find([""], texts, pairs)
    timer(f"find {len(texts):,}")
    values = table.values(rows, "vector")
    timer(f"take {values.nbytes / GIB:.2f} GiB")
    if (rows < 0).any() or not all(
        np.array_equal(values[k * share : (k + 1) * share], made_vectors(start, share))
        for k, start in enumerate(starts)
    ):
        raise SystemExit("a stored vector is not found, or is another one")


def made_vectors(start: int, count: int) -> Any:
    draw = np.random.default_rng(start)
    return draw.standard_normal((count, VECTOR_WIDTH), dtype=np.float32)


def float_values(draw: np.random.Generator, count: int) -> Any:
    """Scores as models give them: float32 numbers, which the store holds in float64."""
    return draw.normal(size=count).astype(np.float32).astype(np.float64)


def caption(number: int) -> str:
    return f"a made caption, number {number}, of some twelve words"


def pair_ids(start: int, count: int) -> tuple[list[str], list[str]]:
    """Make content ids of pairs, the same for the same numbers; five pairs share an image."""
    image, text = id_digits(start, count)
    texts = [text[k : k + 32] for k in range(0, 32 * count, 32)]
    images = [image[k : k + 32] for k in range(0, len(image), 32)]
    return [images[i // CAPTIONS_PER_IMAGE] for i in range(count)], texts


def id_digits(start: int, count: int) -> tuple[str, str]:
    """Make the digits of the ids of distinct images and of captions, end to end."""
    images, texts = id_words(start, count)
    return images.tobytes().hex(), texts.tobytes().hex()


def id_words(start: int, count: int) -> tuple[Any, Any]:
    """Make packed ids of distinct images and of captions."""
    images = -(-count // CAPTIONS_PER_IMAGE)
    words = (
        np.random.default_rng((0, start)).bytes(16 * images),
        np.random.default_rng((1, start)).bytes(16 * count),
    )
    return tuple(np.frombuffer(some, np.uint64).reshape(-1, 2) for some in words)  # type: ignore[return-value]


STEPS = {
    "plan, √p × √p": plan_grid,
    "plan, a caption each": plan_pairs,
    "write": write,
    "fill": fill,
    "look up": look_up,
    "look up all": look_up_all,
    "look up a hundredth": look_up_share,
    "write vectors": write_vectors,
    "take vectors": take_vectors,
}
DEFAULT_STEPS = ("plan, √p × √p", "plan, a caption each", "write", "look up")


def run_steps(sizes: list[int], memory: float, folder: Path | None, only: list[str] | None) -> None:
    """Run every step at every size in processes of their own, and print a Markdown table."""
    print("| step | pairs | processor seconds | peak memory |")
    print("|---|---|---|---|")
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as store:
            for name in only or DEFAULT_STEPS:
                print(f"| {name} | {size:,} | {_run_step(name, size, memory, store)} |", flush=True)


def _run_step(name: str, size: int, memory: float, store: str) -> str:
    command = [sys.executable, __file__, "step", name, str(size), store]
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, text=True) as child,
    ):
        too_large = False
        while child.poll() is None:
            too_large = too_large or resident_bytes(child.pid) > memory * GIB
            if too_large:
                child.kill()
            time.sleep(0.05)
        output.seek(0)
        lines = output.read().splitlines()
    done = [json.loads(line) for line in lines if line.startswith("[")]
    spent: dict[str, list[float]] = {}
    for phase, some, _ in done:
        spent.setdefault(phase, []).append(some)
    seconds = ", ".join(f"{phase} {np.mean(some):.1f}" for phase, some in spent.items() if phase)
    if child.returncode == 0:
        return f"{seconds} | {done[-1][2] / GIB:.2f} GiB"
    reason = f"takes more than {memory:g} GiB" if too_large else f"fails: {lines[-1][:80]}"
    return f"{seconds} | {reason}"


def resident_bytes(pid: int) -> int:
    """Memory that a process holds; 0 when it has ended."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * resource.getpagesize()


def processor_seconds() -> float:
    """Seconds of this process, and of those that it waited for."""
    return sum(os.times()[:4])


def run_step(name: str, size: int, store: str) -> None:
    """Run one step in this process; print its phases, seconds and peak memory as JSON."""
    start = processor_seconds()

    def timer(phase: str) -> None:
        nonlocal start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps([phase, processor_seconds() - start, peak]), flush=True)
        start = processor_seconds()

    STEPS[name](size, Path(store), timer)


def main() -> None:
    if sys.argv[1:2] == ["step"]:
        name, size, store = sys.argv[2:]
        run_step(name, int(size), store)
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    cost = commands.add_parser("cost", help="GPU hours, storage and requests")
    cost.add_argument("--pairs", type=int, default=100_000_000)
    run = commands.add_parser("run", help="a simulated run of plan and store")
    run.add_argument("--pairs", type=int, nargs="+", default=[1_000_000, 10_000_000])
    run.add_argument("--memory", type=float, default=8.0, help="GiB of each step")
    run.add_argument("--folder", type=Path, help="where the store is made, and removed afterwards")
    run.add_argument("--step", nargs="+", choices=list(STEPS), help="these steps alone")
    options = parser.parse_args()
    if options.command == "cost":
        print_cost(options.pairs)
    else:
        run_steps(options.pairs, options.memory, options.folder, options.step)


if __name__ == "__main__":
    main()
