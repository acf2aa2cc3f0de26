"""Names for what is learnt from."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.arrays import Ragged
from contrapose.build.captions.pairs import CONTRAST, EXCHANGE, NEGATIVE, POSITIVE, REPLACE
from contrapose.errors import InputError
from contrapose.tune.data.files import read_training_set
from contrapose.tune.data.rows import (
    TrainingCaption,
    TrainingSet,
    filter_kinds,
    training_set_fingerprint,
)
from contrapose.tune.data.scenes import make_scene_set
from contrapose.world.captions import CHANGES, REWRITES
from tests.tune.data.test_files import tarred
from tests.tune.small import small_rows, write_pairs


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
    assert list(some.image_captions) == [rows.image_captions[4], rows.image_captions[1]]
    assert some.images.pixels is not None
    assert rows.images.pixels is not None
    assert (some.images.pixels[1] == rows.images.pixels[1]).all()
    assert some.images.open([0])[0].tobytes() == rows.images.open([4])[0].tobytes()
    again = some.take([1])
    assert list(again.image_captions) == [rows.image_captions[1]]


def test_nothing_to_learn_from() -> None:
    with pytest.raises(InputError, match="nothing to learn from"):
        TrainingSet(small_rows().images, [])


def test_a_saying_needs_no_changes() -> None:
    rows = TrainingSet(small_rows(1).images, [[TrainingCaption("a red ball")]])
    assert len(rows.negatives.values) == len(rows.positives.values) == 0


def rows() -> TrainingSet:
    saying = TrainingCaption(
        "a",
        (("b", "swap-relation"), ("c", "swap-attribute"), ("d", "replace-color"), ("e", "swapped")),
        (("f", "synonym"), ("g", "swap")),
    )
    return TrainingSet(small_rows(2).images, [[saying], [TrainingCaption("h")]])


def of(found: TrainingSet) -> tuple[list[str], list[str]]:
    saying = found.image_captions[0][0]
    return [text for text, _ in saying.negatives], [text for text, _ in saying.positives]


def test_a_kind_and_those_that_begin_with_it() -> None:
    assert of(filter_kinds(rows(), ["swap"])) == (["b", "c"], ["g"])
    assert of(filter_kinds(rows(), ["swap-relation", "replace"])) == (["b", "d"], ["f"])


@pytest.mark.parametrize("data", ["scenes", "build pairs"])
def test_swap_and_replace_choose_on_both_sides(data: str) -> None:
    if data == "scenes":
        negatives, positives = list(CHANGES), list(REWRITES)
        swapped = {"swap-attribute", "swap-relation"}, {"exchange-and"}
        replaced = {kind for kind in negatives if kind.startswith("replace")}, {"synonym"}
    else:
        negatives, positives = list(NEGATIVE), list(POSITIVE)
        swapped = {*EXCHANGE, "rewrite-exchange"}, {"swap-and", "rewrite-swap"}
        replaced = {*CONTRAST, "rewrite-contrast"}, {*REPLACE, "rewrite-synonym"}
    caption = TrainingCaption(
        "a", *(tuple((f"not {kind}", kind) for kind in side) for side in (negatives, positives))
    )
    every = TrainingSet(small_rows(1).images, [[caption]])
    for name, expected in (("swap", swapped), ("replace", replaced)):
        left = filter_kinds(every, [name]).image_captions[0][0]
        assert ({kind for _, kind in left.negatives}, {kind for _, kind in left.positives}) == (
            expected
        )


def test_a_preset_leaves_no_changes_of_other_kinds() -> None:
    caption = TrainingCaption("a", (("b", "swap-relation"),), (("c", "synonym"),))
    left = filter_kinds(TrainingSet(small_rows(1).images, [[caption]]), ["swap"])
    assert left.image_captions[0][0].positives == ()


def test_a_side_of_which_nothing_is_said_stays() -> None:
    assert of(filter_kinds(rows(), ["synonym"])) == (["b", "c", "d", "e"], ["f"])


def test_images_and_captions_stay() -> None:
    found = filter_kinds(rows(), ["swap"])
    assert len(found) == 2
    assert found.image_captions[1] == [TrainingCaption("h")]
    assert "d" not in found.texts


def test_a_kind_that_is_not_there() -> None:
    with pytest.raises(InputError, match="did you mean swap"):
        filter_kinds(rows(), ["swop"])


def test_captions_and_images_count_and_changes_do_not() -> None:
    rows = small_rows(6)
    name = training_set_fingerprint(rows)
    assert training_set_fingerprint(small_rows(6, negatives=False)) == name
    assert training_set_fingerprint(rows.take([0, 1, 2, 3, 4])) != name
    assert training_set_fingerprint(rows.take([1, 0, 2, 3, 4, 5])) != name
    other = [list(each) for each in rows.image_captions]
    other[3][1] = TrainingCaption("another caption")
    assert training_set_fingerprint(TrainingSet(rows.images, other)) != name


def test_files_by_place_size_and_time(tmp_path: Path) -> None:
    file = write_pairs(tmp_path, 4)
    name = training_set_fingerprint(read_training_set(file))
    assert training_set_fingerprint(read_training_set(file)) == name
    assert training_set_fingerprint(read_training_set(file).take(range(4))) == name
    os.utime(tmp_path / "2.png", ns=(5, 5))
    assert training_set_fingerprint(read_training_set(file)) != name


def test_places_in_tars(tmp_path: Path) -> None:
    picture = (write_pairs(tmp_path, 1).parent / "0.png").read_bytes()
    members = {"a__png": picture, "a__txt": b"one", "b__png": picture, "b__txt": b"one"}
    file = tarred(tmp_path / "x.tar", **members)
    rows = read_training_set(file)
    assert rows.images.mark(0) != rows.images.mark(1)
    name = training_set_fingerprint(rows)
    os.utime(file, ns=(5, 5))
    assert training_set_fingerprint(rows) != name


def test_scenes_by_their_pixels() -> None:
    assert training_set_fingerprint(make_scene_set(4, 0)) == training_set_fingerprint(
        make_scene_set(4, 0)
    )
    assert training_set_fingerprint(make_scene_set(4, 0)) != training_set_fingerprint(
        make_scene_set(4, 1)
    )
