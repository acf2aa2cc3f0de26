"""Index of pairs: ids packed into 128 bits, keys without collisions, lookups in blocks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.data import text_id
from contrapose.engine import pair_index
from contrapose.engine.pair_index import PairIndex, pack_ids

NAMES = (
    st.text("abé", max_size=17)
    | st.text("0a", min_size=32, max_size=32)
    | st.sampled_from(["0123456789abcdef" * 2, "0123456789ABCDEF" * 2, "ab " * 10 + "ab", "é" * 16])
)
IDS = st.lists(NAMES, max_size=8)


@given(IDS, IDS)
@settings(deadline=None)
def test_ids_are_packed_alike_from_columns_and_sequences(ids: list[str], more: list[str]) -> None:
    column = pa.array([*more, *ids], pa.large_string()).slice(len(more))
    assert np.array_equal(pack_ids(column), pack_ids(ids))
    both = [*ids, *more]
    packed = [row.tobytes() for row in (*pack_ids(ids), *pack_ids(more))]
    assert len(set(packed)) == len(set(both))  # however many are packed together
    assert dict(zip(both, packed, strict=True)) == dict(
        zip(both, (row.tobytes() for row in pack_ids(both)), strict=True)
    )


def test_hash_collisions_change_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = pair_index._hash_ids

    def weak(words: pair_index.IdWords, seed: int, which: int) -> pair_index.IdWords:
        result = mixed(words, seed, which)
        return result % 2 if seed < 3 else result

    monkeypatch.setattr(pair_index, "_hash_ids", weak)
    ids = [f"{i:032}" for i in range(20)]
    known = PairIndex.of(pack_ids(ids), pack_ids(ids))
    assert known.seed == 3
    pairs = np.argwhere(np.ones((20, 20), dtype=np.bool_))
    result = known.find(ids, ids, pairs)
    assert np.array_equal(result, np.where(pairs[:, 0] == pairs[:, 1], pairs[:, 0], -1))


def test_an_equal_hash_is_compared_by_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        pair_index, "_hash_ids", lambda words, seed, which: np.zeros(len(words), dtype=np.uint64)
    )
    known = PairIndex.of(pack_ids(["a"]), pack_ids(["x"]))
    assert known.find(["a", "b", "a" * 9], ["x"], np.array([[0, 0], [1, 0], [2, 0]])).tolist() == [
        0, -1, -1,
    ]  # fmt: skip


def test_a_content_id_takes_16_bytes() -> None:
    ids = [text_id(str(i)) for i in range(5)]
    packed = pack_ids(ids)
    assert packed.nbytes == 16 * len(ids)
    assert packed.tobytes().hex() == "".join(ids)
    assert pack_ids([*ids, "another id", ""]).nbytes == 16 * 7


def test_an_id_is_no_caption_of_the_same_text() -> None:
    assert not np.array_equal(pack_ids(["a cat"]), pack_ids([text_id("a cat")]))


def test_lookups_in_blocks_are_those_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [text_id(str(i)) for i in range(30)]
    known = PairIndex.of(pack_ids(ids[:20]), pack_ids(ids[:20][::-1]))
    pairs = np.argwhere(np.ones((30, 30), dtype=np.bool_))
    at_once = known.find(ids, ids, pairs)
    assert (at_once >= 0).sum() == 20
    monkeypatch.setattr(pair_index, "PAIRS_PER_LOOKUP", 7)
    assert np.array_equal(known.find(ids, ids, pairs), at_once)


def test_an_empty_index_holds_no_pair() -> None:
    known = PairIndex.of(pack_ids([]), pack_ids([]))
    assert known.find(["a"], ["x", "y"], np.array([[0, 0], [0, 1]])).tolist() == [-1, -1]
