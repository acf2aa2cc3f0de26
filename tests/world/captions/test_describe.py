"""Captions that are described are true, unambiguous, well formed and closed in their words."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.world.captions import KINDS, VOCABULARY, Caption, Kind, describe, is_true, relate
from contrapose.world.captions.caption import split_words
from contrapose.world.captions.truth import matching_things
from contrapose.world.captions.words import SLOTS
from contrapose.world.scene import Scene, Thing, relations_between
from tests.world.captions.strategies import scenes, seeds

kinds = st.sampled_from(KINDS)


def described(scene: Scene, seed: int, kind: Kind | None = None) -> Caption | None:
    return describe(scene, np.random.default_rng(seed), kind)


@given(scenes(), seeds, st.none() | kinds, st.floats(0, 1))
def test_described_captions_are_true(
    scene: Scene, seed: int, kind: Kind | None, detail: float
) -> None:
    caption = describe(scene, np.random.default_rng(seed), kind, detail=detail)
    if caption is None:
        assert kind not in {None, "one"}
        return
    assert is_true(caption, scene) is True
    assert kind is None or caption.kind == kind


@given(scenes(2), seeds)
def test_relations_name_one_thing_each(scene: Scene, seed: int) -> None:
    caption = described(scene, seed, "relation")
    if caption is not None:
        assert [matching_things(m, scene) for m in caption.mentions] == [
            [m.thing] for m in caption.mentions
        ]


@given(scenes(), seeds)
def test_the_same_seed_gives_the_same_caption(scene: Scene, seed: int) -> None:
    one, other = described(scene, seed), described(scene, seed)
    assert one is not None
    assert one == other
    assert other is not None
    assert one.text == other.text


@given(scenes(), seeds)
def test_spans_cover_their_words(scene: Scene, seed: int) -> None:
    caption = described(scene, seed)
    assert caption is not None
    text, end = caption.text, 0
    said = set()
    for span in caption.spans:
        assert end <= span.start < span.end <= len(text)
        assert re.fullmatch(r"[a-z-]+( [a-z-]+)*", text[span.start : span.end])
        assert (span.role == "relation") == (span.mention == -1)
        end = span.end
        if span.role in {"object", "attribute"}:
            mention = caption.mentions[span.mention]
            slot = next(slot for slot in SLOTS if slot == span.slot)
            said.add((span.mention, slot))
            if slot == "shape":
                assert text[span.start : span.end].startswith(mention.word(slot).text)
    wanted = {
        (i, slot)
        for i, mention in enumerate(caption.mentions)
        for slot in SLOTS
        if slot == "shape" or mention.value(slot) is not None
    }
    assert said == wanted


@given(scenes(), seeds, kinds)
def test_articles_numbers_and_words(scene: Scene, seed: int, kind: Kind) -> None:
    caption = described(scene, seed, kind)
    if caption is None:
        return
    text = caption.text
    assert not re.search(r"\ban [^aeiou]|\ba [aeiou]", text)
    assert not re.search(r"  |,,| ,|^ | $", text)
    assert set(split_words(text)) <= set(VOCABULARY)
    if kind == "count":
        for mention in caption.mentions:
            assert len(matching_things(mention, scene)) == mention.count


def test_the_vocabulary_is_sorted_lower_case_and_small() -> None:
    assert list(VOCABULARY) == sorted(set(VOCABULARY))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", word) for word in VOCABULARY)
    assert len(VOCABULARY) < 150


def test_relate_gives_the_named_relation() -> None:
    scene = Scene(
        (
            Thing("ball", "red", "metal", "small", "plain", -2.0, 0.0),
            Thing("cube", "blue", "metal", "small", "plain", 2.0, 0.0),
        )
    )
    rng = np.random.default_rng(0)
    for relation in relations_between(scene, 0, 1):
        caption = relate(scene, 0, relation, 1, rng)
        assert caption is not None
        assert [m.thing for m in caption.mentions] == [0, 1]
        assert is_true(caption, scene) is True


@pytest.mark.parametrize("kind", ["relation", "and", "list"])
def test_twins_cannot_be_distinguished(kind: Kind) -> None:
    twin = Thing("ball", "red", "metal", "small", "plain", -2.0, 0.0)
    other = Thing("ball", "red", "metal", "small", "plain", 2.0, 0.0)
    assert described(Scene((twin, other)), 0, kind) is None
