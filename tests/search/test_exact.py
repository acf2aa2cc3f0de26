"""Exact search against a full sort, with ties, tiles of all sizes and rows left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.search import exact
from contrapose.search.exact import multiply, rank_row, search_exact


def by_sorting(
    queries: Any, gallery: Any, k: int, left_out: dict[int, set[int]]
) -> list[list[int]]:
    scores = queries.astype(np.float64) @ gallery.astype(np.float64).T
    ranked = []
    for number, row in enumerate(scores):
        order = sorted(range(len(gallery)), key=lambda i, row=row: (-row[i], i))  # type: ignore[misc]
        ranked.append([i for i in order if i not in left_out.get(number, ())][:k])
    return ranked


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 9),
    st.integers(1, 90),
    st.integers(1, 7),
    st.sampled_from([np.float32, np.float16]),
    st.integers(0, 2**32 - 1),
)
def test_exact_search_is_a_full_sort(count: int, size: int, k: int, dtype: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Small integers: products are exact in float32, and ties are frequent.
    queries = rng.integers(-2, 3, size=(count, 3)).astype(np.float32)
    gallery: Any = rng.integers(-2, 3, size=(size, 3)).astype(dtype)
    numbers, rows = rng.integers(0, count, 5), rng.integers(0, size, 5)
    left_out: dict[int, set[int]] = {}
    for number, row in zip(numbers.tolist(), rows.tolist(), strict=True):
        left_out.setdefault(number, set()).add(row)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "QUERY_TILE", 4)
        patch.setattr(exact, "TILE_CELLS", 4 * 20)
        patch.setattr(exact, "MAX_SPARE", 3)
        neighbors = search_exact(queries, gallery, k, exclude=(numbers, rows))
    expected = by_sorting(queries, gallery, k, left_out)
    assert neighbors.rows.shape == (count, min(k, size))
    for i, want in enumerate(expected):
        missing = min(k, size) - len(want)
        assert neighbors.rows[i].tolist() == want + [-1] * missing
        products = gallery[want].astype(np.float64) @ queries[i]
        assert neighbors.scores[i].tolist() == products.tolist() + [-np.inf] * missing


def test_equal_vectors_stand_in_the_order_of_rows() -> None:
    rng = np.random.default_rng(0)
    gallery = rng.normal(size=(3000, 37)).astype(np.float32)
    twins = np.array([2999, 5, 17, 1600])
    gallery[twins] = gallery[5]
    neighbors = search_exact(gallery[[5]], gallery, 6)
    assert neighbors.rows[0, :4].tolist() == sorted(twins.tolist())
    assert len(set(neighbors.scores[0, :4].tolist())) == 1
    # A gallery of one vector over and over has more ties than candidates are held.
    same = np.tile(gallery[:1], (20_000, 1))
    assert search_exact(gallery[:2], same, 3).rows.tolist() == [[0, 1, 2]] * 2


def test_vectors_closer_than_float32_can_tell_are_ranked_in_float64() -> None:
    rng = np.random.default_rng(1)
    query = rng.normal(size=(1, 512)).astype(np.float32)
    base = rng.normal(size=512)
    gallery = np.stack([base + 1e-7 * rng.normal(size=512) for _ in range(200)]).astype(np.float32)
    wide = gallery.astype(np.float64) @ query[0].astype(np.float64)
    expected = np.lexsort((np.arange(200), -wide))[:20]
    assert search_exact(query, gallery, 20).rows[0].tolist() == expected.tolist()
    longest = float(np.linalg.norm(gallery, axis=1).max())
    known = search_exact(query, gallery, 20, longest=longest)
    assert known.rows[0].tolist() == expected.tolist()


def test_memory_mapped_vectors(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    gallery = rng.normal(size=(500, 16)).astype(np.float16)
    np.save(tmp_path / "vectors.npy", gallery)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    queries = rng.normal(size=(3, 16)).astype(np.float32)
    neighbors = search_exact(queries, mapped, 4)
    assert neighbors.rows.tolist() == by_sorting(queries, gallery, 4, {})
    assert multiply(queries, mapped) == pytest.approx(
        queries @ gallery.astype(np.float32).T, abs=1e-5
    )


def test_one_row_of_scores() -> None:
    scores = np.array([0.5, 0.9, 0.5, 0.9, 0.1])
    assert rank_row(scores, 3)[0].tolist() == [1, 3, 0]
    assert rank_row(scores, 9, np.array([1, 4]))[0].tolist() == [3, 0, 2]
    assert rank_row(np.zeros(0), 3)[0].tolist() == []


def test_a_query_of_zeros_and_an_empty_gallery() -> None:
    gallery = np.eye(4, dtype=np.float32)
    assert search_exact(np.zeros((1, 4)), gallery, 2).rows.tolist() == [[0, 1]]
    assert search_exact(np.ones((2, 4)), gallery[:0], 3).rows.shape == (2, 0)


@pytest.mark.parametrize(
    ("queries", "k", "exclude", "words"),
    [
        (np.ones((1, 3)), 1, None, "fit"),
        (np.ones((1, 4)), 0, None, "k"),
        (np.full((1, 4), np.nan), 1, None, "finite"),
        (np.ones((1, 4)), 1, (np.array([0]), np.array([9])), "gallery"),
        (np.ones((1, 4)), 1, (np.array([3]), np.array([0])), "query"),
    ],
)
def test_bad_searches_are_refused(queries: Any, k: int, exclude: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        search_exact(queries, np.eye(4, dtype=np.float32), k, exclude=exclude)


def test_selection_is_shared_among_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    gallery = rng.normal(size=(1003, 24)).astype(np.float32)
    queries = gallery[rng.integers(0, len(gallery), 41)]
    exclude = np.arange(41), rng.integers(0, len(gallery), 41)
    used: set[int] = set()
    add = exact._Selection.add

    def observe(self: Any, *arguments: Any) -> None:
        used.add(len(self.queries))
        add(self, *arguments)

    monkeypatch.setattr(exact._Selection, "add", observe)
    monkeypatch.setattr(exact, "TILE_CELLS", 41 * 200)
    results = []
    for threads, cells in (("1", 1), ("3", 1), ("3", exact.THREAD_CELLS)):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        monkeypatch.setattr(exact, "THREAD_CELLS", cells)
        results.append(search_exact(queries, gallery, 7, exclude=exclude))
    assert used == {41, 14, 13}  # a small search is not shared
    expected = by_sorting(queries, gallery, 7, {i: {int(row)} for i, row in enumerate(exclude[1])})
    for neighbors in results:
        assert neighbors.rows.tolist() == expected
