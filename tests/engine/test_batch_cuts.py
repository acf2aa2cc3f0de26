"""Batches: everything once, captions of an image together, the same whatever was done before."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.engine import batch_cuts
from contrapose.engine.batch_cuts import cut_batches, pack_missing, sort_pairs

sizes = st.integers(1, 9)
groups = st.lists(st.integers(1, 12), max_size=12).map(
    lambda counts: np.repeat(np.arange(len(counts)), counts)
)


@given(groups, sizes)
def test_batches_hold_everything_once_and_keep_groups(group: np.ndarray, size: int) -> None:
    batches = cut_batches(group, size)
    assert np.concatenate([np.zeros(0, int), *batches]).tolist() == list(range(len(group)))
    assert all(1 <= len(batch) <= size for batch in batches)
    for one, two in pairwise(batches):
        assert len(one) + len(two) > size
    # A group that fits in a batch is split over none.
    for number, count in zip(*np.unique(group, return_counts=True), strict=True):
        holders = [batch for batch in batches if (group[batch] == number).any()]
        assert len(holders) == 1 or count > size


@given(groups, sizes, st.data())
def test_a_resumed_run_scores_the_same_batches(
    group: np.ndarray, size: int, data: st.DataObject
) -> None:
    batches = cut_batches(group, size)
    missing = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(group), max_size=len(group))), dtype=bool
    )
    full = pack_missing(batches, missing, size)
    asked = np.sort(np.concatenate([np.zeros(0, int), *full]))
    assert asked.tolist() == np.flatnonzero(missing).tolist()
    assert all(len(batch) <= size for batch in full)
    done = data.draw(st.integers(0, len(full)))
    for batch in full[:done]:
        missing[batch] = False
    again = pack_missing(batches, missing, size)
    assert [b.tolist() for b in again] == [b.tolist() for b in full[done:]]


@given(groups, sizes)
def test_untouched_batches_stay(group: np.ndarray, size: int) -> None:
    batches = cut_batches(group, size)
    fresh = pack_missing(batches, np.ones(len(group), dtype=bool), size)
    assert [b.tolist() for b in fresh] == [b.tolist() for b in batches]


@given(groups, sizes, st.data())
def test_untouched_batches_stay_whichever_others_are_done(
    group: np.ndarray, size: int, data: st.DataObject
) -> None:
    batches = cut_batches(group, size)
    done = data.draw(st.lists(st.booleans(), min_size=len(batches), max_size=len(batches)))
    missing = np.ones(len(group), dtype=bool)
    for batch, is_done in zip(batches, done, strict=True):
        missing[batch] = not is_done
    left = [b.tolist() for b, is_done in zip(batches, done, strict=True) if not is_done]
    assert [b.tolist() for b in pack_missing(batches, missing, size)] == left


def test_a_skipped_pair_does_not_move_others() -> None:
    batches = cut_batches(np.arange(9), 3)
    missing = np.ones(9, dtype=bool)
    missing[[0, 4]] = False
    packed = pack_missing(batches, missing, 3, stored=np.zeros(9, dtype=bool))
    assert [batch.tolist() for batch in packed] == [[1, 2], [3, 5], [6, 7, 8]]


def test_scattered_missing_pairs_share_a_batch() -> None:
    batches = cut_batches(np.arange(100), 10)
    missing = np.zeros(100, dtype=bool)
    missing[::10] = True
    assert [len(batch) for batch in pack_missing(batches, missing, 10)] == [10]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), unique=True), st.randoms())
def test_pairs_are_sorted_by_length_and_image(pairs: list[tuple[int, int]], random: object) -> None:
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    lengths = np.array([3, 9, 1, 4, 4, 7])
    order = sort_pairs(array, lengths)
    assert sorted(order.tolist()) == list(range(len(pairs)))
    images = array[order, 0].tolist()
    assert len(list(dict.fromkeys(images))) == sum(
        1 for i, image in enumerate(images) if i == 0 or images[i - 1] != image
    )
    longest = {image: max(lengths[t] for i, t in pairs if i == image) for image, _ in pairs}
    seen = [longest[image] for image in dict.fromkeys(images)]
    assert seen == sorted(seen, reverse=True)
    image, length = array[:, 0], lengths[array[:, 1]]
    key = np.array([-longest[i] for i in image.tolist()], dtype=np.int64)
    assert np.array_equal(order, np.lexsort((array[:, 1], -length, image, key)))


def test_sorting_takes_few_bytes_a_pair() -> None:
    count = 100_000
    pairs = np.stack([np.arange(count) // 5, np.arange(count)], axis=1)
    lengths = np.arange(count) % 17
    tracemalloc.start()
    try:
        sort_pairs(pairs, lengths)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * count


def test_groups_are_cut_alike_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = np.random.default_rng(0).integers(0, 3, 200).cumsum()
    expected = [batch.tolist() for batch in cut_batches(groups, 7)]
    monkeypatch.setattr(batch_cuts, "GROUPS_PER_BLOCK", 3)
    assert [batch.tolist() for batch in cut_batches(groups, 7)] == expected
