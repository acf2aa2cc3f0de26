"""Steps of a simulated run: pairs are written to the store, and looked up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.engine import AnswerStore
from contrapose.engine.pair_index import PairIds
from contrapose.engine.part_files import encode_part
from contrapose.engine.store import AnswerTable
from scalejob.made import (
    BLOCK,
    CAPTIONS_PER_IMAGE,
    Timer,
    float_values,
    id_words,
    pair_ids,
)

Part = tuple[PairIds, dict[str, Any]]
"""Ids and columns of a part."""


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

    def make(start: int, count: int) -> Part:
        images, texts = id_words(start, count)
        codes = np.arange(count, dtype=np.int32) // CAPTIONS_PER_IMAGE
        values = float_values(np.random.default_rng(start), count)
        return PairIds(images, codes, texts), {"value": values}

    put_parts(AnswerStore(folder).table("made", "itm:logit"), pairs, BLOCK, make)
    size = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
    timer(f"write {size / 1e9:.2f} GB")


def put_parts(
    table: AnswerTable, rows: int, part_rows: int, make: Callable[[int, int], Part]
) -> None:
    """Write parts as other processes do: the table does not hold their rows.

    Args:
        table: where.
        rows: of all parts.
        part_rows: of each part but the last.
        make: makes the part that begins with some row and has so many.
    """
    newest = ""
    for start in range(0, rows, part_rows):
        newest = _put_part(table, *make(start, min(part_rows, rows - start)), newest)


def _put_part(table: AnswerTable, ids: PairIds, columns: dict[str, Any], newest: str) -> str:
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
