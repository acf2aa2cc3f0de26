"""The store: what was put in comes out, from any number of parts, and damage is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.engine import AnswerStore, default_store_folder
from contrapose.errors import InputError


def test_round_trip_over_parts_and_programs(tmp_path: Path) -> None:
    first, second = AnswerStore(tmp_path), AnswerStore(tmp_path)
    first.answer_table("m", "itm:logit").add(
        ["a", "b"], ["x", "x"], {"value": np.array([1.0, 2.0])}
    )
    second.answer_table("m", "itm:logit").add(["c"], ["x"], {"value": np.array([3.0])})
    shelf = AnswerStore(tmp_path).answer_table("m", "itm:logit")
    rows = shelf.find(["c", "a", "a"], ["x", "x", "y"])
    assert (rows >= 0).tolist() == [True, True, False]
    assert shelf.values(rows[:2]).tolist() == [3.0, 1.0]
    assert AnswerStore(tmp_path).answer_table("m", "lm").find(["a"], ["x"]).tolist() == [-1]
    parts = sorted(tmp_path.rglob("*.parquet"))
    assert len(parts) == 2
    assert pq.read_table(parts[0]).column_names == ["model", "score", "image", "text", "value"]


def test_vectors(tmp_path: Path) -> None:
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    AnswerStore(tmp_path).answer_table("m", "itc").add(["a", "b"], ["", ""], {"vector": vectors})
    shelf = AnswerStore(tmp_path).answer_table("m", "itc")
    assert np.array_equal(shelf.values(shelf.find(["b", "a"], ["", ""]), "vector"), vectors[::-1])


def test_in_memory() -> None:
    store = AnswerStore(None)
    store.answer_table("m", "s").add(["a"], ["x"], {"value": np.array([1.0])})
    assert store.answer_table("m", "s").find(["a", "b"], ["x", "x"]).tolist() == [0, -1]


def test_unfinished_parts_are_not_read(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path)
    store.answer_table("m", "s").add(["a"], ["x"], {"value": np.array([1.0])})
    (part,) = tmp_path.rglob("*.parquet")
    part.with_name(".half.parquet").write_bytes(part.read_bytes()[:40])
    assert AnswerStore(tmp_path).answer_table("m", "s").find(["a"], ["x"]).tolist() == [0]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1 nothing PAR1"])
def test_damaged_parts_are_named(tmp_path: Path, content: bytes) -> None:
    AnswerStore(tmp_path).answer_table("m", "s").add(["a"], ["x"], {"value": np.array([1.0])})
    (part,) = tmp_path.rglob("*.parquet")
    part.write_bytes(content)
    with pytest.raises(InputError, match="damaged part of the cache") as refused:
        AnswerStore(tmp_path).answer_table("m", "s").find(["a"], ["x"])
    assert refused.value.file == part


def test_names_that_are_no_folder_names_stay_apart(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path)
    for name in ("a/b", "a:b", "a_b", "../a", "x" * 300):
        store.answer_table("m", name).add(["i"], ["t"], {"value": np.array([1.0])})
    folders = list((tmp_path / "answers" / "m").iterdir())
    assert len(folders) == 5


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        AnswerStore(tmp_path / "file")
    with pytest.raises(InputError, match="cannot be written"):
        AnswerStore(tmp_path / "file" / "inside")


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_store_folder() == tmp_path / "contrapose"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_store_folder() == Path.home() / ".cache" / "contrapose"


def test_the_newest_answer_counts(tmp_path: Path) -> None:
    for value in (1.0, 2.0, 3.0):
        shelf = AnswerStore(tmp_path).answer_table("m", "s")
        shelf.add(["a", "b"], ["x", "x"], {"value": np.array([value, -value])})
        assert shelf.values(shelf.find(["b", "a"], ["x", "x"])).tolist() == [-value, value]
    fresh = AnswerStore(tmp_path).answer_table("m", "s")
    assert fresh.values(fresh.find(["a"], ["x"])).tolist() == [3.0]
    assert fresh.rows_at_start == 6
    names = [part.name for part in tmp_path.rglob("*.parquet")]
    assert len(set(names)) == 3


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"), st.floats(-9, 9))),
    st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("xyzw"))),
    st.integers(1, 5),
)
def test_found_as_in_a_dictionary(
    added: list[tuple[str, str, float]], wanted: list[tuple[str, str]], size: int
) -> None:
    shelf = AnswerStore().answer_table("m", "s")
    known: dict[tuple[str, str], float] = {}
    for start in range(0, len(added), size):
        some = added[start : start + size]
        images, texts, values = zip(*some, strict=True)
        shelf.add(images, texts, {"value": np.array(values)})
        known |= {(image, text): value for image, text, value in some}
    rows = shelf.find([image for image, _ in wanted], [text for _, text in wanted])
    found = shelf.values(rows)
    for pair, row, value in zip(wanted, rows, found, strict=True):
        assert (row >= 0) == (pair in known)
        assert value == known.get(pair) or (pair not in known and np.isnan(value))
    pairs = np.array([[0, 1], [2, 0]])
    named = shelf.find(("a", "q", "c"), ("x", "y"), pairs)
    assert (named >= 0).tolist() == [("a", "y") in known, ("c", "x") in known]
