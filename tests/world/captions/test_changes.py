"""Changes are false and touch their slot only; rewrites stay true; shuffles keep the words."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.world.captions import (
    CHANGES,
    REWRITES,
    VOCABULARY,
    Caption,
    Mention,
    describe,
    is_true,
    orders,
)
from contrapose.world.captions.caption import split_words
from contrapose.world.scene import Scene, Thing
from tests.world.captions.strategies import scenes, seeds

REPLACED = {
    "replace-color": "color",
    "replace-shape": "shape",
    "replace-size": "size",
    "replace-material": "material",
    "replace-relation": "relation",
    "replace-count": "count",
}
SCENE = Scene(
    (
        Thing("cube", "red", "metal", "large", "plain", -2.0, 0.0),
        Thing("ball", "blue", "rubber", "small", "striped", 2.0, 0.1),
    )
)
RED_CUBE, BLUE_BALL = Mention(0, "cube", "red"), Mention(1, "ball", "blue")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def bag(text: str) -> Counter[str]:
    return Counter("a" if word == "an" else word for word in split_words(text))


def rest(caption: Caption, slot: str, mention: int) -> list[str]:
    """The words outside one slot, without what agrees with it: a / an, is / are, the plural."""
    agreeing = {"an": "a", "are": "is"}
    return [
        re.sub("s$", "", piece.text)
        if piece.role == "object" and slot == "count"
        else agreeing.get(piece.text, piece.text)
        for piece in caption.pieces()
        if not (piece.slot == slot and piece.mention == mention)
    ]


@given(scenes(), seeds)
def test_changes_are_false_and_well_formed(scene: Scene, seed: int) -> None:
    caption = describe(scene, rng(seed))
    assert caption is not None
    for change in CHANGES.values():
        changed = change(caption, scene, rng(seed))
        if changed is not None:
            assert is_true(changed, scene) is False
            assert changed.text != caption.text
            assert set(split_words(changed.text)) <= set(VOCABULARY)
            assert not re.search(r"\ban [^aeiou]|\ba [aeiou]", changed.text)


@given(scenes(), seeds, st.sampled_from(sorted(REPLACED)))
def test_replacing_touches_one_slot(scene: Scene, seed: int, name: str) -> None:
    kind = {"replace-count": "count", "replace-relation": "relation"}.get(name)
    caption = describe(scene, rng(seed), kind, detail=0.7)  # type: ignore[arg-type]
    changed = CHANGES[name](caption, scene, rng(seed)) if caption is not None else None
    if caption is None or changed is None:
        return
    slot = REPLACED[name]
    places = range(-1 if slot == "relation" else 0, len(caption.mentions))
    assert any(rest(caption, slot, place) == rest(changed, slot, place) for place in places)
    assert changed.template == caption.template


@given(scenes(2), seeds, st.sampled_from(["swap-attribute", "swap-relation"]))
def test_swaps_keep_the_bag_of_words(scene: Scene, seed: int, name: str) -> None:
    caption = describe(scene, rng(seed), "relation", detail=0.7) or describe(
        scene, rng(seed), "and"
    )
    changed = CHANGES[name](caption, scene, rng(seed)) if caption is not None else None
    if caption is not None and changed is not None:
        assert bag(changed.text) == bag(caption.text)


@given(scenes(), seeds)
def test_adding_only_adds(scene: Scene, seed: int) -> None:
    caption = describe(scene, rng(seed))
    assert caption is not None
    changed = CHANGES["add"](caption, scene, rng(seed))
    if changed is not None:
        assert not bag(caption.text) - bag(changed.text)
        assert len(split_words(changed.text)) > len(split_words(caption.text))


@given(scenes(), seeds, st.sampled_from(sorted(REWRITES)))
def test_rewrites_stay_true(scene: Scene, seed: int, name: str) -> None:
    kind = "relation" if name == "converse" and seed % 2 else None
    caption = describe(scene, rng(seed), kind)  # type: ignore[arg-type]
    rewritten = REWRITES[name](caption, rng(seed)) if caption is not None else None
    if caption is not None and rewritten is not None:
        assert is_true(rewritten, scene) is True
        assert rewritten.text != caption.text
        assert set(split_words(rewritten.text)) <= set(VOCABULARY)


@given(scenes(), seeds)
def test_shuffles_keep_the_words_in_another_order(scene: Scene, seed: int) -> None:
    caption = describe(scene, rng(seed))
    assert caption is not None
    shuffled = orders(caption, scene, rng(seed))
    for text in shuffled or ():
        assert Counter(split_words(text)) == Counter(split_words(caption.text))
        assert text != caption.text


def test_noun_shuffle_of_equal_sides_is_not_true() -> None:
    caption = Caption("and", (RED_CUBE, BLUE_BALL))
    seen = {(orders(caption, SCENE, rng(seed)) or ("",))[0] for seed in range(40)}
    assert seen == {"a blue cube and a red ball", "a red ball and a blue cube"}


def test_weights_decide_what_is_drawn() -> None:
    caption = Caption("one", (RED_CUBE,))
    for seed in range(10):
        changed = CHANGES["replace-color"](caption, SCENE, rng(seed), weights={"pink": 1.0})
        assert changed is not None
        assert changed.text == "a pink cube"
    assert CHANGES["replace-color"](caption, SCENE, rng(), weights={"red": 1.0}) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("swap-attribute", "a blue cube to the left of a red ball"),
        ("swap-relation", "a blue ball to the left of a red cube"),
    ],
)
def test_swaps_by_example(name: str, text: str) -> None:
    caption = Caption("relation", (RED_CUBE, BLUE_BALL), "left of")
    assert caption.text == "a red cube to the left of a blue ball"
    changed = CHANGES[name](caption, SCENE, rng())
    assert changed is not None
    assert changed.text == text


def test_rewrites_by_example() -> None:
    relation = Caption("relation", (RED_CUBE, BLUE_BALL), "left of", template=8)
    assert relation.text == "to the left of a blue ball is a red cube"
    converse = REWRITES["converse"](relation, rng())
    assert converse is not None
    assert converse.text == "to the right of a red cube is a blue ball"
    exchanged = REWRITES["exchange-and"](Caption("and", (RED_CUBE, BLUE_BALL)), rng())
    assert exchanged is not None
    assert exchanged.text == "a blue ball and a red cube"


@pytest.mark.parametrize("name", ["replace-relation", "replace-count", "swap-attribute"])
def test_absent_slots_cannot_be_changed(name: str) -> None:
    assert CHANGES[name](Caption("one", (RED_CUBE,)), SCENE, rng()) is None
