from __future__ import annotations

import numpy as np
import pytest
import torch

from contrapose.errors import InputError
from contrapose.tune.data.scenes import describe_scene, make_scene_set
from contrapose.world.benchmark import parse_caption
from contrapose.world.captions import is_true
from contrapose.world.sample import sample_scene


def test_changes_are_false_and_rewordings_true() -> None:
    kinds: set[str] = set()
    for i in range(60):
        scene = sample_scene(3, i)
        for saying in describe_scene(scene, np.random.default_rng(i)):
            for text, right in (
                (saying.caption, True),
                *((text, False) for text, _ in saying.negatives),
                *((text, True) for text, _ in saying.positives),
            ):
                caption = parse_caption(text)
                assert caption is not None
                assert is_true(caption, scene) is right, text
            kinds |= {kind for _, kind in (*saying.negatives, *saying.positives)}
            said = [saying.caption, *(text for text, _ in (*saying.negatives, *saying.positives))]
            assert len(set(said)) == len(said)
    assert {"swap-attribute", "swap-relation", "replace-color", "converse", "synonym"} <= kinds


def test_a_smaller_set_is_the_beginning_of_a_larger_one() -> None:
    few, more = make_scene_set(3, 1, size=16), make_scene_set(5, 1, size=16)
    assert list(more.image_captions[:3]) == list(few.image_captions)
    assert few.images.pixels is not None
    assert more.images.pixels is not None
    assert torch.equal(more.images.pixels[:3], few.images.pixels)
    assert list(make_scene_set(3, 2, size=16).image_captions) != list(few.image_captions)


def test_processes_change_nothing() -> None:
    assert list(make_scene_set(3, 1, size=16, workers=2).image_captions) == list(
        make_scene_set(3, 1, size=16).image_captions
    )


def test_pictures_can_be_opened() -> None:
    rows = make_scene_set(2, 0, size=16)
    (picture,) = rows.images.open([1])
    assert rows.images.pixels is not None
    assert np.array_equal(np.asarray(picture), rows.images.pixels[1].numpy())


def test_none_is_refused() -> None:
    with pytest.raises(InputError, match="at least one scene"):
        make_scene_set(0)
