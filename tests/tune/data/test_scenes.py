from __future__ import annotations

import numpy as np
import pytest
import torch

from contrapose.errors import InputError
from contrapose.tune.data.scenes import sayings, scene_rows
from contrapose.world.benchmark import read_caption
from contrapose.world.captions import is_true
from contrapose.world.sample import sample_scene


def test_changes_are_false_and_rewordings_true() -> None:
    kinds: set[str] = set()
    for i in range(60):
        scene = sample_scene(3, i)
        for saying in sayings(scene, np.random.default_rng(i)):
            for text, right in (
                (saying.caption, True),
                *((text, False) for text, _ in saying.negatives),
                *((text, True) for text, _ in saying.positives),
            ):
                caption = read_caption(text)
                assert caption is not None
                assert is_true(caption, scene) is right, text
            kinds |= {kind for _, kind in (*saying.negatives, *saying.positives)}
            said = [saying.caption, *(text for text, _ in (*saying.negatives, *saying.positives))]
            assert len(set(said)) == len(said)
    assert {"swap-attribute", "swap-relation", "replace-color", "converse", "synonym"} <= kinds


def test_a_smaller_set_is_the_beginning_of_a_larger_one() -> None:
    few, more = scene_rows(3, 1, size=16), scene_rows(5, 1, size=16)
    assert list(more.sayings[:3]) == list(few.sayings)
    assert few.images.pixels is not None
    assert more.images.pixels is not None
    assert torch.equal(more.images.pixels[:3], few.images.pixels)
    assert list(scene_rows(3, 2, size=16).sayings) != list(few.sayings)


def test_processes_change_nothing() -> None:
    assert list(scene_rows(3, 1, size=16, workers=2).sayings) == list(
        scene_rows(3, 1, size=16).sayings
    )


def test_pictures_can_be_opened() -> None:
    rows = scene_rows(2, 0, size=16)
    (picture,) = rows.images.open([1])
    assert rows.images.pixels is not None
    assert np.array_equal(np.asarray(picture), rows.images.pixels[1].numpy())


def test_none_is_refused() -> None:
    with pytest.raises(InputError, match="at least one scene"):
        scene_rows(0)
