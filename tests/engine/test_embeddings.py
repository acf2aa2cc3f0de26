"""Cosines of pairs, from vectors that pass by in blocks: those of all vectors at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.engine import AnswerStore, embeddings, part_files, part_origins
from contrapose.engine.embeddings import Embeddings, pair_cosines
from contrapose.engine.store import AnswerTable
from contrapose.metrics import FloatArray, IntArray

WIDTH = 3


def fill(table: AnswerTable, vectors: FloatArray, parts: int) -> Embeddings:
    """Store vectors in some parts, the last ones first; a skipped one has NaN."""
    names = [f"{i:032x}" for i in range(len(vectors))]
    sound = np.flatnonzero(~np.isnan(vectors[:, 0]))
    for some in np.array_split(sound, parts)[::-1]:
        if len(some):
            table.add([names[i] for i in some], [""] * len(some), {"vector": vectors[some]})
    return Embeddings(table, table.find(names, [""] * len(names)))


def expect(images: FloatArray, captions: FloatArray, pairs: IntArray) -> FloatArray:
    """The cosines, one by one."""
    return np.array(
        [
            max(
                np.dot(one.astype(np.float64), captions[j].astype(np.float64))
                for one in images[i].reshape(-1, WIDTH)
            )
            for i, j in pairs.tolist()
        ]
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[FloatArray, FloatArray, IntArray]:
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, m, several = draw(st.integers(1, 12)), draw(st.integers(1, 12)), draw(st.integers(1, 2))
    images = rng.normal(size=(n, several * WIDTH)).astype(np.float32)
    captions = rng.normal(size=(m, WIDTH)).astype(np.float32)
    for vectors in (images, captions):
        vectors[rng.random(len(vectors)) < draw(st.sampled_from([0.0, 0.2]))] = np.nan
    count = draw(st.integers(0, 30))
    pairs = np.stack([rng.integers(0, n, count), rng.integers(0, m, count)], axis=1)
    return images, captions, pairs


@settings(deadline=None)
@given(cases(), st.lists(st.sampled_from([1, 7, 30, 1 << 20]), min_size=5, max_size=5))
def test_as_from_all_vectors_at_once(
    tmp_path_factory: pytest.TempPathFactory,
    case: tuple[FloatArray, FloatArray, IntArray],
    sizes: list[int],
) -> None:
    images, captions, pairs = case
    folder = tmp_path_factory.mktemp("store")
    names = ("HELD_CELLS", "CACHED_CELLS"), ("RUN_BYTES", "FETCH_BYTES"), ("VECTOR_BLOCK_BYTES",)
    modules = embeddings, part_origins, part_files
    with pytest.MonkeyPatch.context() as patch:
        limits = iter(sizes)
        for module, some in zip(modules, names, strict=True):
            for name in some:
                patch.setattr(module, name, next(limits))
        writer = AnswerStore(folder)
        fill(writer.table("m", "image"), images, 3)
        fill(writer.table("m", "text"), captions, 2)
        reader = AnswerStore(folder)
        stored = [
            fill(reader.table("m", name), np.full_like(vectors, np.nan), 1)
            for name, vectors in (("image", images), ("text", captions))
        ]
        cosines = pair_cosines(stored[0], stored[1], pairs)
    assert cosines.dtype == np.float64
    np.testing.assert_allclose(cosines, expect(images, captions, pairs), rtol=1e-14, atol=1e-15)


def test_images_are_held_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "HELD_CELLS", 4 * WIDTH)
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(10, WIDTH)).astype(np.float32)
    store = AnswerStore(tmp_path)
    images, captions = (
        fill(store.table("m", "i"), vectors, 1),
        fill(store.table("m", "t"), vectors, 1),
    )
    held: list[int] = []
    plain = AnswerTable.values

    def watched(self: AnswerTable, rows: IntArray, column: str = "value") -> FloatArray:
        held.append(len(rows))
        return plain(self, rows, column)

    monkeypatch.setattr(AnswerTable, "values", watched)
    pairs = np.stack([np.arange(10)] * 2, axis=1)
    np.testing.assert_allclose(
        pair_cosines(images, captions, pairs), (vectors.astype(np.float64) ** 2).sum(axis=1)
    )
    assert held == [4, 4, 2]


def test_an_error_where_vectors_are_used_is_raised(tmp_path: Path) -> None:
    vectors = np.zeros((9, WIDTH), dtype=np.float32)
    filled = fill(AnswerStore(tmp_path).table("m", "i"), vectors, 9)

    def refuse(positions: IntArray, vectors: FloatArray) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        filled.table.read_vectors(filled.rows, refuse)
