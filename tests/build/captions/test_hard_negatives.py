"""Hard negatives one by one: contrasts, exchanges, orders and negations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from contrapose.build.captions import Rewrite, Sentence, apply_changes, parse_sentence
from contrapose.build.captions.hard_negatives import (
    ORDER_KINDS,
    contrast_attributes,
    contrast_numbers,
    contrast_objects,
    contrast_relations,
    exchange_attributes,
    exchange_objects,
    negate,
    shuffle_words,
)
from contrapose.build.captions.lexicon import load_lexicon, side_index
from contrapose.build.captions.verification import have_same_words


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
    assert {"a blue cube", "an orange cube"} <= colours
    assert not colours & {"a crimson cube", "a maroon cube", "a red cube"}
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
    ("caption", "holds", "lacks"),
    [
        ("two dogs are running", "one dog is running", "two dog is running"),
        ("one dog is running", "two dogs are running", "two dog are running"),
        ("3 boats", "2 boats", "3 boats"),
        ("Two dogs", "Three dogs", "three dogs"),
        ("two sheep", "three sheep", "one sheep"),
        ("two dogs run", "three dogs run", "one dog run"),
    ],
)
def test_a_number_for_another(caption: str, holds: str, lacks: str) -> None:
    made = texts(contrast_numbers, caption)
    assert holds in made
    assert lacks not in made


def test_numbers_without_a_noun() -> None:
    assert texts(contrast_numbers, "two of the dogs") == set()
    assert texts(contrast_numbers, "a dog of number 7 is here") == set()


def test_exchanges() -> None:
    caption = "a red cube on an orange ball"
    assert texts(exchange_attributes, caption) == {"an orange cube on a red ball"}
    assert texts(exchange_objects, caption) == {"a red ball on an orange cube"}
    assert texts(exchange_objects, "a dog chasing two cats") == set()
    assert texts(exchange_objects, "a dog chasing a dog") == set()
    assert texts(exchange_objects, "a piece of cake") == set()
    assert texts(exchange_attributes, "many people on a large boat") == set()
    assert texts(exchange_attributes, "two dogs and three cats") == {"three dogs and two cats"}
    assert texts(exchange_objects, "Dogs chasing cats") == {"Cats chasing dogs"}


def test_orders_keep_words_case_and_marks() -> None:
    caption = "A red cube on top of a blue ball."
    made = list(shuffle_words(parse_sentence(caption), seed=0))
    assert [one.kind for one in made] == list(ORDER_KINDS)
    for one in made:
        assert have_same_words(caption, one.text)
        assert one.text.endswith(".")
        assert one.text[0].isupper()
        assert one.text[1:] == one.text[1:].lower()
        assert apply_changes(caption, one.changes) == one.text
    assert made == list(shuffle_words(parse_sentence(caption), seed=0))
    assert made != list(shuffle_words(parse_sentence(caption), seed=1))
    assert list(shuffle_words(parse_sentence("Dogs."), seed=0)) == []


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
