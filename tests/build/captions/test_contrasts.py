"""Hard negatives by contrast: attributes, objects, relations, negations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from contrapose.build.captions import Rewrite, Sentence, apply_changes, parse_sentence
from contrapose.build.captions.contrasts import (
    contrast_attributes,
    contrast_objects,
    contrast_relations,
    negate,
)
from contrapose.build.captions.lexicon import load_lexicon, side_index


def texts(make: Callable[[Sentence], Iterator[Rewrite]], caption: str) -> set[str]:
    made = list(make(parse_sentence(caption)))
    for one in made:
        assert one.text != caption
        assert apply_changes(caption, one.changes) == one.text
    return {one.text for one in made}


def test_an_attribute_for_one_that_excludes_it() -> None:
    assert texts(contrast_attributes, "an open door") == {"a closed door"}
    assert texts(contrast_attributes, "a large dog") == {"a small dog"}
    colours = texts(contrast_attributes, "a red cube")
    assert {"a blue cube", "a green cube"} <= colours
    assert not colours & {"a crimson cube", "a maroon cube", "a red cube", "an orange cube"}
    assert "the door is closed" in texts(contrast_attributes, "the door is open")


def test_words_that_are_no_attributes() -> None:
    assert texts(contrast_attributes, "two hot dogs") == set()
    assert texts(contrast_attributes, "a red and white bus") == set()


def test_an_object_for_another_of_its_class() -> None:
    made = texts(contrast_objects, "two dogs")
    assert {"two cats", "two sheep", "two horses"} <= made
    assert not {"two puppies", "two dogs"} & made
    assert "an elephant" in texts(contrast_objects, "a dog")
    assert "A dog chasing a dog" not in texts(contrast_objects, "A dog chasing a cat")
    assert texts(contrast_objects, "a teddy bear") == set()


def test_an_object_keeps_its_number() -> None:
    assert "a man wearing gloves" not in texts(contrast_objects, "a man wearing a hat")
    assert not any(" a shoes" in text for text in texts(contrast_objects, "a man in a hat"))


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a cat in front of a sofa", {"a cat behind a sofa"}),
        ("a cat on top of a box", {"a cat under a box"}),
        ("a cat on a table", {"a cat under a table"}),
        ("a picture on a wall", set()),
        ("a man next to a fence", {"a man far from a fence"}),
        ("men pushing a car", {"men pulling a car"}),
        ("a man pushes a car", {"a man pulls a car"}),
        ("a dog in the background", {"a dog in the foreground"}),
        ("a man without a hat", {"a man with a hat"}),
        ("a pen sitting on a rug", set()),
    ],
)
def test_a_relation_for_one_that_excludes_it(caption: str, expected: set[str]) -> None:
    assert texts(contrast_relations, caption) == expected


def test_postures_of_the_living() -> None:
    made = texts(contrast_relations, "a man sitting on a rug")
    assert made == {
        "a man standing on a rug", "a man lying on a rug", "a man kneeling on a rug",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("There is a cat on a bed", {"There is no cat on a bed"}),
        ("there are dogs on a bed", {"there are no dogs on a bed"}),
        ("A dog is running", {"A dog is not running"}),
        ("a man riding a horse", {"a man not riding a horse"}),
        ("a man with a hat", {"a man without a hat"}),
        ("a man without a hat", set()),
        ("a man who isn't here", set()),
        ("two dogs", set()),
    ],
)
def test_negations(caption: str, expected: set[str]) -> None:
    assert texts(negate, caption) == expected


def test_sides_of_a_contrast_are_disjoint() -> None:
    for sides in (*load_lexicon().attributes.values(), *load_lexicon().objects.values()):
        assert len(side_index(sides)) == sum(map(len, sides))


@pytest.mark.parametrize(
    "caption",
    [
        "a tan dog",  # may be called brown
        "a dark blue shirt",
        "a white, brown and black dog",
        "black people on a stage",
        "a little girl",
        "two hot dogs on a plate",
        "an old photo",
    ],
)
def test_attributes_that_may_be_true_too(caption: str) -> None:
    made = texts(contrast_attributes, caption)
    wrong = {"a brown dog", "a yellow dog", "a white blue shirt", "a large girl", "a young photo"}
    assert not made & wrong
    assert not any("cold dog" in text or "people" in text for text in made)
    assert "black dog" not in " ".join(made) or caption == "a tan dog"


@pytest.mark.parametrize(
    ("caption", "lacks"),
    [
        ("a woman in a hat", "girl"),
        ("a man in a hat", "shirt"),
        ("a room with a table", "chair"),
        ("a table and a couch", "bed"),
        ("a dog chases another dog", "cat"),
        ("a man and his dog", "woman"),
        ("a horse drawn cart", "zebra"),
        ("a polar bear in the snow", "sheep"),
        ("a man watches a waterfall", "keyboard"),
        ("a player in orange", "pineapple"),
        ("a dog on the beach", "forest"),
        ("the top of a building", "dress"),
        ("The broccoli is in a bowl", "onions"),
        ("a boy catching a Frisbee", "Kite"),
        ("people passing by watch", "television"),
    ],
)
def test_objects_that_may_be_there_too(caption: str, lacks: str) -> None:
    assert not any(lacks in text for text in texts(contrast_objects, caption))


@pytest.mark.parametrize(
    ("caption", "lacks"),
    [
        ("a dog running through the grass", "standing"),
        ("a man throwing a ball into a pool", "catching"),
        ("a boy throwing a frisbee", "holding"),
        ("a dog catching a frisbee", "throwing"),
        ("a man walking down the street", "up the street"),
        ("a dog carrying a stick in its mouth", "dropping"),
        ("the inside view of a church", "outside"),
        ("people sit and stand behind her", "stand and stand"),
        ("a boy rides a horse up a ramp", "feeds"),
        ("a scene with focus on a bench", "under"),
    ],
)
def test_relations_that_do_not_fit(caption: str, lacks: str) -> None:
    assert not any(lacks in text for text in texts(contrast_relations, caption))


def test_negation_with_a_clear_scope() -> None:
    assert texts(negate, "a man with a hat and a dog") == set()
    assert texts(negate, "a room with two windows") == set()
    assert texts(negate, "THERE IS A CAT ON A BED") == {"THERE IS NO CAT ON A BED"}
