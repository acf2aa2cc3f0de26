"""Captions taken apart again, and the regions they speak of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contrapose.data import ComposedSet, EditSet, Example, Gallery, ImageRef
from contrapose.data.tagging import WordGroups
from contrapose.errors import InputError
from contrapose.world.benchmark import (
    find_mentioned_things,
    parse_caption,
    regions,
    scene_groups,
    text_groups,
    word_groups,
    word_spans,
)
from contrapose.world.benchmark.suite import part_data
from contrapose.world.captions import describe
from contrapose.world.render import render
from contrapose.world.sample import sample_scene


def said(text: str, groups: WordGroups) -> dict[str, list[str]]:
    return {name: [text[a:b] for a, b in spans] for name, spans in groups.items()}


def test_scene_captions_are_grouped_by_their_grammar() -> None:
    text = "a striped ball in front of a cyan metallic pyramid"
    assert said(text, text_groups(text)) == {
        "O": ["ball", "pyramid"],
        "R": ["in front of"],
        "A": ["striped", "cyan", "metallic"],
    }
    shuffled = "ball cyan a striped pyramid"
    assert said(shuffled, scene_groups(shuffled)) == {
        "O": ["ball", "pyramid"],
        "A": ["cyan", "striped"],
    }


def test_other_captions_are_grouped_by_part_of_speech() -> None:
    text = "a small dog sits on two red chairs"
    assert said(text, text_groups(text)) == {
        "O": ["dog", "chairs"],
        "R": ["sits", "on"],
        "A": ["small", "two", "red"],
    }


def some(part: str, count: int = 20) -> list[Example]:
    data = part_data(part, "balanced", count, 5, 48)
    assert not isinstance(data, Gallery | EditSet | ComposedSet)
    return list(data)


def test_every_caption_is_parsed_to_its_value() -> None:
    for i in range(1500):
        scene = sample_scene(2, i, "balanced")
        caption = describe(scene, np.random.default_rng(i))
        if caption is None:
            continue
        mentions = tuple(replace(each, number_word=0) for each in caption.mentions)
        caption = replace(caption, mentions=mentions)
        read = parse_caption(caption.text)
        assert read is not None, caption.text
        assert read.text == caption.text
        assert read.spans == caption.spans
        assert (read.kind, read.relation) == (caption.kind, caption.relation)
        for one, other in zip(read.mentions, caption.mentions, strict=True):
            slots = ("shape", "color", "size", "material", "pattern", "count")
            assert [getattr(one, s) for s in slots] == [getattr(other, s) for s in slots]


@pytest.mark.parametrize("text", ["", "a dog on a mat", "red a cube", "cube", "a red", ", and"])
def test_other_texts_are_not_parsed(text: str) -> None:
    assert parse_caption(text) is None


def test_word_groups_of_sentences_and_shuffles() -> None:
    text = "a red cube to the left of the big ball"
    spans = word_spans(text)
    assert [(text[s.start : s.end], s.role, s.mention) for s in spans] == [
        ("red", "attribute", 0),
        ("cube", "object", 0),
        ("to the left of", "relation", -1),
        ("big", "attribute", 1),
        ("ball", "object", 1),
    ]
    text = "cube and red a two ball"
    assert [(text[s.start : s.end], s.role) for s in word_spans(text)] == [
        ("cube", "object"), ("red", "attribute"), ("two", "number"), ("ball", "object"),
    ]  # fmt: skip


def test_word_groups_of_an_example() -> None:
    for example in some("replace-relation"):
        groups = word_groups(example)
        assert len(groups) == 2
        for text, spans in zip(example.texts, groups, strict=True):
            assert sum(span.role == "relation" for span in spans) == 1
            assert {span.mention for span in spans} == {-1, 0, 1}
            assert all(text[span.start : span.end].strip() for span in spans)
    assert all(len(word_groups(example)) == 5 for example in some("order", 5))


def test_regions_are_those_of_the_renderer() -> None:
    for example in some("location", 4):
        for i, ref in enumerate(example.images):
            masks = regions(example, i, 40)
            scene = ref.source.scene  # type: ignore[union-attr]
            drawn = render([scene], 40).masks()[0].numpy()
            assert np.array_equal(masks, drawn[: len(masks)])
            assert masks.any(axis=(1, 2)).all()


def test_mentions_lead_to_things() -> None:
    for example in some("swap-relation"):
        right = example.match[0].index(True)
        first, second = find_mentioned_things(example, right)
        assert len(first) == len(second) == 1
        assert first != second
    for example in some("order", 5):
        for i, text in enumerate(example.texts):
            assert (find_mentioned_things(example, i) == ()) == (parse_caption(text) is None)


def test_other_images_have_no_regions() -> None:
    example = replace(some("add", 1)[0], images=(ImageRef("x", path=Path("x.png")),))
    with pytest.raises(InputError, match="not drawn from a scene"):
        regions(example)
