from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.tune.data.rows import Ragged, Rows, Saying
from tests.tune.small import small_rows


@given(st.lists(st.lists(st.integers(0, 99), max_size=4), min_size=1, max_size=9), st.data())
def test_one_value_of_each_list_is_drawn(lists: list[list[int]], data: st.DataObject) -> None:
    ragged = Ragged.of(lists)
    chance = data.draw(st.floats(0, 1, exclude_max=True))
    places = ragged.draw(np.arange(len(lists)), np.full(len(lists), chance))
    for values, place in zip(lists, places.tolist(), strict=True):
        assert (place == -1) == (not values)
        if values:
            assert ragged.values[place] in values


def test_every_text_stands_once() -> None:
    rows = small_rows()
    assert len(set(rows.texts)) == len(rows.texts)
    assert set(rows.kinds) == {"replace-color", "object", "synonym"}


def test_some_of_the_images() -> None:
    rows = small_rows()
    some = rows.take([4, 1])
    assert len(some) == 2
    assert list(some.sayings) == [rows.sayings[4], rows.sayings[1]]
    assert some.images.pixels is not None
    assert rows.images.pixels is not None
    assert (some.images.pixels[1] == rows.images.pixels[1]).all()
    assert some.images.open([0])[0].tobytes() == rows.images.open([4])[0].tobytes()
    again = some.take([1])
    assert list(again.sayings) == [rows.sayings[1]]


def test_nothing_to_learn_from() -> None:
    with pytest.raises(InputError, match="nothing to learn from"):
        Rows(small_rows().images, [])


def test_a_saying_needs_no_changes() -> None:
    rows = Rows(small_rows(1).images, [[Saying("a red ball")]])
    assert len(rows.negatives.values) == len(rows.positives.values) == 0
