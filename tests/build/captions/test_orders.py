"""Orders of words: the four shuffles, and those that can still be read like the caption."""

from __future__ import annotations

import pytest

from contrapose.build.captions import apply_changes, parse_sentence
from contrapose.build.captions.orders import (
    NOUNS_ADJECTIVES,
    ORDER_KINDS,
    OTHERS,
    TRIGRAMS,
    WITHIN_TRIGRAMS,
    keeps_meaning,
    shuffle_words,
)
from contrapose.build.captions.verification import have_same_words


def test_orders_keep_words_case_and_marks() -> None:
    caption = "A large red cube stands on top of a blue ball."
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
    ("kind", "caption", "order"),
    [
        (TRIGRAMS, "a dog runs across the grass", "across the grass a dog runs"),
        (WITHIN_TRIGRAMS, "dog barking", "barking dog"),
        (NOUNS_ADJECTIVES, "two black , wet dogs", "two wet , black dogs"),
        (NOUNS_ADJECTIVES, "the batter , catcher and umpire", "the umpire , batter and catcher"),
        (OTHERS, "the dog on a bed", "a dog on the bed"),
        (OTHERS, "the officer is outside on a bike", "the officer outside is on a bike"),
    ],
)
def test_orders_that_keep_the_meaning(kind: str, caption: str, order: str) -> None:
    tokens = parse_sentence(caption).tokens
    words = [token.low for token in tokens]
    left = list(range(len(words)))
    indices = []
    for word in order.split():
        index = next(i for i in left if words[i] == word)
        indices.append(index)
        left.remove(index)
    assert keeps_meaning(kind, tokens, indices)
    made = {one.text for seed in range(8) for one in shuffle_words(parse_sentence(caption), seed)}
    assert order not in made


def test_orders_that_change_the_meaning() -> None:
    tokens = parse_sentence("a dog chases the cat").tokens
    assert not keeps_meaning(NOUNS_ADJECTIVES, tokens, [0, 4, 2, 3, 1])
    assert not keeps_meaning(TRIGRAMS, tokens, [3, 0, 1, 2, 4])


def test_a_nationality_keeps_its_capital() -> None:
    made = list(shuffle_words(parse_sentence("French canister set of eight in blue"), seed=0))
    assert made
    assert all("French" in one.text for one in made)
