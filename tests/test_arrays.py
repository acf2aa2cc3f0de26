"""Ragged arrays, distinct values and unit vectors, against plain Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.arrays import Ragged, find_distinct, normalize_rows


@given(st.lists(st.tuples(st.integers(0, 3), st.text("ab", max_size=1))))
def test_distinct_values(values: list[tuple[int, str]]) -> None:
    distinct, index = find_distinct(values)
    assert distinct == list(dict.fromkeys(values))
    assert [distinct[i] for i in index] == values


ROWS = st.lists(st.lists(st.floats(-9, 0, width=32), max_size=4), max_size=6)


def build(rows: list[list[float]]) -> Ragged:
    flat = np.array([value for row in rows for value in row], dtype=np.float32)
    return Ragged(flat, np.cumsum([0, *map(len, rows)]))


@given(st.lists(ROWS, min_size=1, max_size=3), st.lists(st.integers(-1, 20), max_size=8))
def test_ragged_arrays_behave_as_lists(blocks: list[list[list[float]]], wanted: list[int]) -> None:
    rows = [row for block in blocks for row in block]
    joined = Ragged.concatenate([build(block) for block in blocks])
    assert [list(joined[i]) for i in range(len(joined))] == rows
    wanted = [i for i in wanted if i < len(rows)]
    taken = joined.take(np.array(wanted, dtype=np.int64))
    assert [list(taken[i]) for i in range(len(taken))] == [
        rows[i] if i >= 0 else [] for i in wanted
    ]
    column = pa.chunked_array([joined.to_arrow()])
    assert column.to_pylist() == [row or None for row in rows]
    back = Ragged.from_arrow(column)
    assert [list(back[i]) for i in range(len(back))] == rows


@given(st.lists(st.text("ab", max_size=2)))
def test_distinct_texts(values: list[str]) -> None:
    distinct, index = find_distinct(values)
    assert distinct == list(dict.fromkeys(values))
    assert [distinct[i] for i in index] == values


def test_unit_vectors() -> None:
    vectors = np.array([[3.0, 4.0], [0.0, 0.0], [1e-3, 0.0]], dtype=np.float32)
    assert normalize_rows(vectors) == pytest.approx(np.array([[0.6, 0.8], [0, 0], [1, 0]]))
    assert normalize_rows(vectors).dtype == np.float32
