"""Columns of texts: as lists of texts, and their ids as those of single texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.arrays import find_distinct
from contrapose.data import text_columns as module
from contrapose.data import text_id
from contrapose.data.text_columns import ContentIds, TextColumn, TextRows

TEXTS = st.lists(st.text(max_size=5), max_size=8)


def without_values(texts: list[str]) -> TextColumn:
    """Column that has no list of its texts."""
    column = TextColumn.of(texts)
    return TextColumn(column.data, column.offsets)


@settings(deadline=None, max_examples=25)
@given(TEXTS, st.integers(-9, 9), st.integers(-9, 9))
def test_a_column_is_a_sequence(texts: list[str], start: int, stop: int) -> None:
    arrow = TextColumn.from_arrow(pa.array(["more", *texts], pa.string())[1:])
    for column in (TextColumn.of(texts), without_values(texts), arrow):
        assert list(column) == texts
        assert len(column) == len(texts)
        assert column[start:stop] == texts[start:stop]
        assert column[::-2] == texts[::-2]
        assert [column[i] for i in range(-len(texts), len(texts))] == texts * 2
        assert column.to_arrow().to_pylist() == texts
        assert column.values == tuple(texts)
        with pytest.raises(IndexError):
            column[len(texts)]


@settings(deadline=None, max_examples=60)
@given(TEXTS)
def test_ids_and_distinct_texts(texts: list[str]) -> None:
    column = without_values(texts)
    assert list(column.ids) == [text_id(text) for text in texts]
    assert column.ids[1:] == [text_id(text) for text in texts[1:]]
    distinct, index = column.find_distinct()
    expected, positions = find_distinct(texts)
    assert list(distinct) == expected
    assert index.tolist() == positions.tolist()
    assert list(distinct.ids) == [text_id(text) for text in expected]
    assert [column.ids[i] for i in range(len(texts))] == [text_id(text) for text in texts]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text(st.sampled_from("ab\0ä"), max_size=18), max_size=8), st.integers(0, 3))
def test_equal_texts_are_found(texts: list[str], start: int) -> None:
    for column in (without_values(texts), TextColumn.from_arrow(pa.array(texts, pa.string()))):
        assert column.are_distinct() == (len(set(texts)) == len(texts))
    some = TextColumn.from_arrow(pa.array(texts, pa.string())[start:])
    assert some.are_distinct() == (len(set(texts[start:])) == len(texts[start:]))


def test_long_texts_and_equal_hashes_are_compared_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "a" * module.LONGEST_KEYED
    assert without_values([long + "b", long + "c"]).are_distinct()
    assert not without_values([long + "b", long + "b"]).are_distinct()
    monkeypatch.setattr(module, "hash_texts", lambda data, offsets: np.zeros(len(offsets) - 1))
    assert without_values(["a", "b"]).are_distinct()
    assert not without_values(["a", "a"]).are_distinct()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(st.sampled_from("ab\nä"), max_size=4), min_size=1, max_size=8))
def test_many_texts_are_split_off_one(texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TEXTS_TO_SPLIT", 1)
        column = without_values(texts)
        assert column[1:] == texts[1:]
        assert list(column) == texts
        assert column.values == tuple(texts)


def test_texts_whose_keys_are_equal_are_told_apart() -> None:
    texts = ["a", "b", "a", "c"]
    column = without_values(texts)
    words = np.array([[1, 0], [1 ^ 0x9E3779B97F4A7C15, 1], [1, 0], [1, 5]], np.uint64)
    column._ids = ContentIds(words)
    distinct, index = column.find_distinct()
    assert list(distinct) == ["a", "b", "c"]
    assert index.tolist() == [0, 1, 0, 2]


def test_rows() -> None:
    rows = TextRows(without_values(["a", "ä", "c"]), np.array([0, 2, 2, 3]))
    assert list(rows) == [("a", "ä"), (), ("c",)]
    assert [rows[0], rows[-1], rows[1:]] == [("a", "ä"), ("c",), [(), ("c",)]]
    with pytest.raises(IndexError):
        rows[3]


def test_other_processes_hash_many_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"text {i}" for i in range(1000)]
    monkeypatch.setattr(module, "count_workers", lambda *_: 2)
    forgotten = without_values(texts).ids
    assert len(forgotten) == len(texts)
    del forgotten
    assert list(without_values(texts).ids) == [text_id(text) for text in texts]
