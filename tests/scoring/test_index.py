"""Pairs are found by numbers, and never one pair for another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.scoring import index
from contrapose.scoring.distinct import distinct
from contrapose.scoring.index import Index, stacked, words_of

IDS = st.lists(st.text("abé", max_size=17) | st.just("0123456789abcdef" * 2), max_size=8)


@given(IDS, IDS)
def test_columns_and_sequences_are_the_same(ids: list[str], more: list[str]) -> None:
    column = pa.array([*more, *ids], pa.large_string()).slice(len(more))
    assert np.array_equal(words_of(column), words_of(ids))
    letters = [row.tobytes().rstrip(b"\0").decode() for row in words_of(ids)]
    assert letters == ids
    both = stacked([words_of(ids), words_of(more)])
    assert [row.tobytes().rstrip(b"\0").decode() for row in both] == [*ids, *more]


def test_pairs_with_the_same_number_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = index._mixed

    def weak(words: index.Words, seed: int, which: int) -> index.Words:
        found = mixed(words, seed, which)
        return found % 2 if seed < 3 else found

    monkeypatch.setattr(index, "_mixed", weak)
    ids = [f"{i:032}" for i in range(20)]
    known = Index.of(words_of(ids), words_of(ids))
    assert known.seed == 3
    pairs = np.argwhere(np.ones((20, 20), dtype=np.bool_))
    found = known.find(ids, ids, pairs)
    assert np.array_equal(found, np.where(pairs[:, 0] == pairs[:, 1], pairs[:, 0], -1))


def test_a_number_that_is_there_by_chance_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        index, "_mixed", lambda words, seed, which: np.zeros(len(words), dtype=np.uint64)
    )
    known = Index.of(words_of(["a"]), words_of(["x"]))
    assert known.find(["a", "b", "a" * 9], ["x"], np.array([[0, 0], [1, 0], [2, 0]])).tolist() == [
        0, -1, -1,
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 3), st.text("ab", max_size=1))))
def test_distinct(values: list[tuple[int, str]]) -> None:
    found, at = distinct(values)
    assert found == list(dict.fromkeys(values))
    assert [found[i] for i in at] == values
