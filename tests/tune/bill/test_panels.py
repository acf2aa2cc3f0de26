from __future__ import annotations

from pathlib import Path

import pytest

from contrapose.data import Example
from contrapose.errors import InputError
from contrapose.files import StrictProblems
from contrapose.tune.data.rows import TrainingCaption, TrainingSet
from contrapose.tune.report.panels import count_examples, make_pairs_panel, split_training_set
from contrapose.tune.report.scenes import SEED, make_scene_panel
from contrapose.world.benchmark import parse_caption, scene_of, scenes
from contrapose.world.captions import is_true
from tests.tune.small import small_rows, small_student


def test_scenes() -> None:
    panel = make_scene_panel(2)
    assert count_examples(panel) == {
        "swaps": 4, "replacements": 12, "changes": 6, "hard positives": 6, "retrieval": 4,
        "naming": 4,
    }  # fmt: skip
    tests = {test.name: test for test in panel.tests}
    assert tests["naming"].right is not None
    pictures = panel.images.open([0, 1])
    assert [picture.size for picture in pictures] == [(96, 96)] * 2
    examples = scenes(examples=2, seed=SEED).parts["swap-attribute"].read(Path(), StrictProblems())
    example = next(iter(examples))  # type: ignore[arg-type]
    assert isinstance(example, Example)
    shown = scene_of(example.images[0])
    first, second = (panel.texts[place] for place in tests["swaps"].texts[0])
    for text, right in ((first, True), (second, False)):
        caption = parse_caption(text)
        assert caption is not None
        assert is_true(caption, shown) is right


def test_one_s_own_pairs() -> None:
    rows = small_rows()
    panel = make_pairs_panel(rows, small_student().model)
    found = count_examples(panel)
    assert found["replacements"] == 16
    assert found["hard positives"] == 8
    assert found["retrieval"] == 12
    assert 0 < found["close pairs"] <= 12
    assert "swaps" not in found
    tests = {test.name: test for test in panel.tests}
    for pair, texts in zip(tests["close pairs"].images, tests["close pairs"].texts, strict=True):
        assert pair[0] != pair[1]
        assert texts[0] != texts[1]
    one = panel.images.open([0])[0]
    assert one.tobytes() == rows.images.open([0])[0].tobytes()


def test_the_same_caption_twice_is_no_retrieval() -> None:
    images = small_rows(3).images
    rows = TrainingSet(
        images,
        [[TrainingCaption("a ball")], [TrainingCaption("a ball")], [TrainingCaption("a cube")]],
    )
    panel = make_pairs_panel(rows)
    assert count_examples(panel) == {"retrieval": 2}


def test_kinds_are_pooled() -> None:
    kinds = ("exchange-object", "order-trigrams", "attribute", "negation")
    negatives = tuple((f"wrong {kind}", kind) for kind in kinds)
    panel = make_pairs_panel(
        TrainingSet(small_rows(1).images, [[TrainingCaption("right", negatives)]])
    )
    assert count_examples(panel) == {"swaps": 2, "replacements": 1, "other changes": 1}


def test_nothing_to_ask() -> None:
    with pytest.raises(InputError, match="nothing to measure"):
        make_pairs_panel(TrainingSet(small_rows(1).images, [[TrainingCaption("alone")]]))


def test_what_is_held_out_is_not_learnt_from() -> None:
    rows = small_rows()
    learnt, held = split_training_set(rows, 0.25, seed=1)
    assert (len(learnt), len(held)) == (9, 3)
    captions = [{row[0].caption for row in part.image_captions} for part in (learnt, held)]
    assert len(captions[0] | captions[1]) == 12
    assert not captions[0] & captions[1]
    assert [s[0].caption for s in split_training_set(rows, 0.25, seed=1)[1].image_captions] == [
        s[0].caption for s in held.image_captions
    ]
    assert len(split_training_set(rows, 0.0001, seed=1)[1]) == 1
