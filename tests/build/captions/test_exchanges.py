"""Exchanges of attributes and nouns: what changes places, and what must not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from contrapose.build.captions import Rewrite, Sentence, apply_changes, parse_sentence
from contrapose.build.captions.exchanges import exchange_attributes, exchange_objects


def texts(make: Callable[[Sentence], Iterator[Rewrite]], caption: str) -> set[str]:
    made = list(make(parse_sentence(caption)))
    for one in made:
        assert one.text != caption
        assert apply_changes(caption, one.changes) == one.text
    return {one.text for one in made}


def test_exchanges() -> None:
    caption = "a blue cube on an orange ball"
    assert texts(exchange_attributes, caption) == {"an orange cube on a blue ball"}
    assert texts(exchange_objects, caption) == {"a blue ball on an orange cube"}
    assert texts(exchange_objects, "a dog chasing two cats") == set()
    assert texts(exchange_objects, "a dog chasing a dog") == set()
    assert texts(exchange_objects, "a piece of cake") == set()
    assert texts(exchange_attributes, "many people on a large boat") == set()
    assert texts(exchange_attributes, "two dogs and three cats") == {"three dogs and two cats"}
    assert texts(exchange_objects, "Dogs chasing cats") == {"Cats chasing dogs"}


@pytest.mark.parametrize(
    "caption",
    [
        "The bench is adjacent to the umbrella.",
        "a man hugging a woman",
        "a batter , a catcher and an umpire",
        "the horse next to the dog",
        "a hose hooked up to a fire hydrant",
        "A bird has its wings spread wide",
        "Lecture takes place in casual atmosphere .",
        "A child takes part in a race .",
    ],
)
def test_objects_that_stay(caption: str) -> None:
    assert texts(exchange_objects, caption) == set()


def test_compounds_move_whole() -> None:
    assert texts(exchange_objects, "a lady eating a hot dog") == {"a hot dog eating a lady"}
    assert texts(exchange_objects, "two teddy bears on two chairs") == {
        "two chairs on two teddy bears"
    }
    assert texts(exchange_objects, "a girl jumping into a swimming pool") == {
        "a swimming pool jumping into a girl"
    }


def test_capitals_stay() -> None:
    made = texts(exchange_objects, "A man with a Mohawk kicks a ball")
    assert not any("Man" in text or "mohawk" in text for text in made)
    assert texts(exchange_objects, "A MAN RIDING AN ELEPHANT") == {"AN ELEPHANT RIDING A MAN"}


def test_objects_that_follow_each_other() -> None:
    assert texts(exchange_objects, "a man handing a dog a stick") == {"a dog handing a man a stick"}


def test_articles_and_mass_nouns() -> None:
    assert texts(exchange_objects, "a man shovels the snow") == set()
    assert texts(exchange_objects, "the man shovels the snow") == {"the snow shovels the man"}


@pytest.mark.parametrize(
    "caption",
    [
        "two boys , one in a red shirt and the other in a blue shirt",
        "a tan dog with a brown ear",
        "Black dog , orange dog and a cat",
        "one man wearing an orange cap and one wearing a blue cap",
        "a neon green shirt and black pants",
        "a beautiful woman in tight jeans",
        "a blond girl in a red dress",
    ],
)
def test_attributes_that_stay(caption: str) -> None:
    assert texts(exchange_attributes, caption) == set()
