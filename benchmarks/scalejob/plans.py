"""Steps of a simulated run: plans, and the batches that they are cut into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contrapose.data import ImageRef
from contrapose.data.ref_columns import RefColumn
from contrapose.data.text_columns import TextColumn
from contrapose.engine.batch_cuts import cut_batches, sort_pairs
from contrapose.engine.plan import ScoringPlan, plan_cells
from scalejob.made import BLOCK, CAPTIONS_PER_IMAGE, Timer

BATCH_SIZE = 256


@dataclass(frozen=True, slots=True)
class MadeImage:
    """Source of an image that is never opened."""

    content: str


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


def caption(number: int) -> str:
    return f"a made caption, number {number}, of some twelve words"
