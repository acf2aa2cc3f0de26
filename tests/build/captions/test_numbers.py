"""Hard negatives by number, and the agreement of nouns and verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from contrapose.build.captions import Rewrite, Sentence, apply_changes, parse_sentence
from contrapose.build.captions.numbers import contrast_numbers


def texts(make: Callable[[Sentence], Iterator[Rewrite]], caption: str) -> set[str]:
    made = list(make(parse_sentence(caption)))
    for one in made:
        assert one.text != caption
        assert apply_changes(caption, one.changes) == one.text
    return {one.text for one in made}


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


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("There is exactly 1 boat", "There are exactly 2 boats"),
        ("There are exactly 2 boats.", "There is exactly 1 boat."),
        ("two dogs also are here", "one dog also is here"),
    ],
)
def test_agreement_past_an_adverb(caption: str, expected: str) -> None:
    assert expected in texts(contrast_numbers, caption)


@pytest.mark.parametrize(
    "caption",
    [
        "two people on horses are posing",
        "two bears open their mouths",
        "two men in black shirts",
        "these two dogs",
    ],
)
def test_no_number_on_the_other_side_of_one(caption: str) -> None:
    assert not any("one" in text.lower().split() for text in texts(contrast_numbers, caption))


@pytest.mark.parametrize(
    "caption",
    ["a one way sign", "a three factor model", "chair #7 in rows", "two dogs , one of them brown"],
)
def test_numbers_that_count_nothing(caption: str) -> None:
    assert texts(contrast_numbers, caption) == set()
