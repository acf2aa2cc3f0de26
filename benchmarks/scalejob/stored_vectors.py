"""Steps of a simulated run: vectors are written to the store, taken, and multiplied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from contrapose.engine import AnswerStore
from contrapose.engine.embeddings import Embeddings, pair_cosines
from contrapose.engine.pair_index import PairIds, pack_ids
from scalejob.made import CAPTIONS_PER_IMAGE, GIB, Timer, id_words
from scalejob.stored_pairs import Part, put_parts

VECTORS_PER_PART, VECTOR_WIDTH = 50_000, 768


def write_vectors(inputs: int, folder: Path, timer: Timer) -> None:
    """Write so many vectors of 768 numbers."""

    def make(start: int, count: int) -> Part:
        _, texts = id_words(start, count)
        ids = PairIds(pack_ids([""]), np.zeros(count, dtype=np.int32), texts)
        return ids, {"vector": made_vectors(start, count)}

    put_parts(AnswerStore(folder).table("made", "itc:text"), inputs, VECTORS_PER_PART, make)
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


def take_cosines(inputs: int, folder: Path, timer: Timer) -> None:
    """Compute the cosine of every vector with that of its image, one of the first fifth."""
    table = AnswerStore(folder).table("made", "itc:text")
    starts = range(0, inputs, VECTORS_PER_PART)
    texts = np.concatenate(
        [id_words(start, min(VECTORS_PER_PART, inputs - start))[1] for start in starts]
    )
    number = np.arange(inputs)
    timer("make the ids")
    rows = table.find([""], texts, np.stack([np.zeros_like(number), number], axis=1))
    timer(f"open, find {inputs:,}")
    captions = Embeddings(table, rows)
    images = Embeddings(table, rows[: -(-inputs // CAPTIONS_PER_IMAGE)])
    pairs = np.stack([number // CAPTIONS_PER_IMAGE, number], axis=1)
    cosines = pair_cosines(images, captions, pairs)
    timer("compute")
    some = np.linspace(0, inputs - 1, 50).astype(np.int64)
    for k, expected in zip(some, _products(pairs[some], starts), strict=True):
        if not np.isclose(cosines[k], expected, rtol=1e-12):
            raise SystemExit("a cosine is not that of its vectors")


def _products(pairs: Any, starts: range) -> Any:
    """Inner products of pairs of made vectors, in float64."""
    needed = {n // VECTORS_PER_PART * VECTORS_PER_PART for n in pairs.flat}
    rows: dict[int, Any] = {}
    for start in sorted(needed):
        vectors = made_vectors(start, min(VECTORS_PER_PART, starts.stop - start))
        rows |= {
            n: vectors[n - start].astype(np.float64)
            for n in pairs.flat
            if 0 <= n - start < len(vectors)
        }
    return [rows[i] @ rows[j] for i, j in pairs.tolist()]


def made_vectors(start: int, count: int) -> Any:
    draw = np.random.default_rng(start)
    return draw.standard_normal((count, VECTOR_WIDTH), dtype=np.float32)
