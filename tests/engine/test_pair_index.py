"""Index of pairs: ids packed into 128 bits, keys without collisions, lookups in blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.data import text_id
from contrapose.data.text_columns import IdWords
from contrapose.engine import pair_index
from contrapose.engine.pair_index import PairFilter, PairIds, PairIndex, pack_ids

NAMES = (
    st.text("abé", max_size=17)
    | st.text("0a", min_size=32, max_size=32)
    | st.sampled_from(["0123456789abcdef" * 2, "0123456789ABCDEF" * 2, "ab " * 10 + "ab", "é" * 16])
)
IDS = st.lists(NAMES, max_size=8)


@given(IDS, IDS)
@settings(deadline=None)
def test_different_ids_are_packed_differently(ids: list[str], more: list[str]) -> None:
    assert np.array_equal(pack_ids(pack_ids(ids)), pack_ids(ids))
    both = [*ids, *more]
    packed = [row.tobytes() for row in (*pack_ids(ids), *pack_ids(more))]
    assert len(set(packed)) == len(set(both))  # however many are packed together
    assert dict(zip(both, packed, strict=True)) == dict(
        zip(both, (row.tobytes() for row in pack_ids(both)), strict=True)
    )


def test_hash_collisions_change_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = pair_index._hash_ids

    def weak(words: IdWords, seed: int, which: int) -> IdWords:
        result = mixed(words, seed, which)
        return result % 2 if seed < 3 else result

    monkeypatch.setattr(pair_index, "_hash_ids", weak)
    ids = [f"{i:032}" for i in range(20)]
    known = PairIndex.of(PairIds.of(ids, ids))
    assert known.seed == 3
    pairs = np.argwhere(np.ones((20, 20), dtype=np.bool_))
    result = known.find(pack_ids(ids), pack_ids(ids), pairs)
    assert np.array_equal(result, np.where(pairs[:, 0] == pairs[:, 1], pairs[:, 0], -1))


def test_ids_that_differ_in_their_last_digits_share_no_key() -> None:
    ids = [f"{i:032x}" for i in range(300)]
    i, j = np.divmod(np.arange(300 * 300), 300)
    grid = PairIds.take(pack_ids(ids), pack_ids(ids), np.stack([i, j], axis=1))
    assert PairIndex.of(grid).seed == 0


def test_an_equal_hash_is_compared_by_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        pair_index, "_hash_ids", lambda words, seed, which: np.zeros(len(words), dtype=np.uint64)
    )
    known = PairIndex.of(PairIds.of(["a"], ["x"]))
    images = pack_ids(["a", "b", "a" * 9])
    rows = known.find(images, pack_ids(["x"]), np.array([[0, 0], [1, 0], [2, 0]]))
    assert rows.tolist() == [0, -1, -1]


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
    known = PairIndex.of(PairIds.of(ids[:20], ids[:20][::-1]))
    pairs = np.argwhere(np.ones((30, 30), dtype=np.bool_))
    packed = pack_ids(ids)
    at_once = known.find(packed, packed, pairs)
    assert (at_once >= 0).sum() == 20
    monkeypatch.setattr(pair_index, "PAIRS_PER_LOOKUP", 7)
    assert np.array_equal(known.find(packed, packed, pairs), at_once)


def test_an_empty_index_holds_no_pair() -> None:
    known = PairIndex.of(PairIds.of([], []))
    assert known.find(
        pack_ids(["a"]), pack_ids(["x", "y"]), np.array([[0, 0], [0, 1]])
    ).tolist() == [-1, -1]


def test_images_are_numbered() -> None:
    ids = PairIds.of(["a", "b", "a", "a"], ["x", "x", "y", "x"])
    assert ids.codes.tolist() == [0, 1, 0, 0]
    both = PairIds.concatenate([ids, PairIds.of(["b"], ["z"])])
    assert both.codes.tolist() == [0, 1, 0, 0, 2]
    index = PairIndex.of(both)
    pairs = np.argwhere(np.ones((2, 3), dtype=np.bool_))
    rows = index.find(pack_ids(["a", "b"]), pack_ids(["x", "y", "z"]), pairs)
    assert rows.tolist() == [3, 2, -1, 1, -1, 4]  # the newest of equal pairs


@given(st.lists(st.tuples(NAMES, NAMES), max_size=9), st.lists(st.tuples(NAMES, NAMES), max_size=9))
@settings(deadline=None, max_examples=20)
def test_a_filter_selects_the_rows_of_wanted_pairs(
    wanted: list[tuple[str, str]], rows: list[tuple[str, str]]
) -> None:
    def pack(some: list[tuple[str, str]]) -> PairIds:
        return PairIds.of([image for image, _ in some], [text for _, text in some])

    rows = [*rows, *wanted[::2]]
    chosen = PairFilter.of(PairIndex.of(pack(wanted))).select(pack(rows))
    assert chosen.tolist() == [k for k, pair in enumerate(rows) if pair in set(wanted)]
    kept = pack(rows).select(chosen)
    assert len(kept.images) <= len(kept)
    assert np.array_equal(kept.images[kept.codes], pack_ids([rows[k][0] for k in chosen]))


def test_rows_that_only_share_bits_of_their_keys_are_not_selected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        pair_index, "_hash_ids", lambda words, seed, which: np.zeros(len(words), dtype=np.uint64)
    )
    chosen = PairFilter.of(PairIndex.of(PairIds.of(["a"], ["x"])))
    assert chosen.select(PairIds.of(["b", "a", "a"], ["x", "x", "y"])).tolist() == [1]
