"""The tokeniser reads any text, and another text is another sequence of tokens."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.models.tiny.network import BYTES, END, MATCH, PAD, SPECIAL, START, Tokenizer
from contrapose.world.captions import VOCABULARY

TOKENISER = Tokenizer(VOCABULARY)
texts = st.one_of(
    st.text(),
    st.lists(st.sampled_from([*VOCABULARY, "zebra", "Ünï", ",", "re", "d", "红"])).map(" ".join),
)


def _pieces(text: str) -> list[str]:
    """Words, with their hyphens, and signs of a text, which are all of it that counts."""
    return re.findall(r"\w+(?:-\w+)*|[^\w\s]", text.lower())


@given(texts)
def test_nothing_that_counts_is_lost(text: str) -> None:
    tokens = TOKENISER.encode(text)
    assert TOKENISER.decode(tokens).split() == _pieces(text)
    assert all(SPECIAL <= token < len(TOKENISER) for token in tokens)


@given(texts, texts)
def test_other_texts_are_other_tokens(one: str, other: str) -> None:
    assert (TOKENISER.encode(one) == TOKENISER.encode(other)) == (_pieces(one) == _pieces(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("zebra crossing", "zebracrossing"),
        ("redball", "red ball"),
        ("zebra", "zebras"),
        ("a, b", "a b"),
        ("ab c", "a bc"),
    ],
)
def test_words_never_run_together(one: str, other: str) -> None:
    assert TOKENISER.encode(one) != TOKENISER.encode(other)


def test_case_and_spacing_do_not_count() -> None:
    expected = TOKENISER.encode("a red zebra, left of a cube")
    assert TOKENISER.encode("  A Red\tZEBRA ,left  of\na CUBE ") == expected


def test_known_words_are_one_token_each() -> None:
    assert "medium-sized" in VOCABULARY
    for i, word in enumerate(VOCABULARY):
        assert TOKENISER.encode(word) == [SPECIAL + BYTES + i]
    assert len(TOKENISER) == SPECIAL + BYTES + len(VOCABULARY)


def test_unknown_words_are_spelled() -> None:
    tokens = TOKENISER.encode("red zebra")
    assert len(tokens) == 1 + len("zebra ")
    assert tokens[1:] == TOKENISER.spell("zebra")
    assert TOKENISER.decode(tokens) == "red zebra"
    assert TOKENISER.decode(TOKENISER.spell("red")) == "red"


def test_even_what_is_no_proper_unicode() -> None:
    assert TOKENISER.encode("\ud800") != TOKENISER.encode("\ud801")


def test_special_tokens_are_silent() -> None:
    tokens = [START, *TOKENISER.encode("a zebra"), END, PAD, PAD]
    assert TOKENISER.decode(tokens) == "a zebra"
    assert sorted((PAD, START, END, MATCH)) == list(range(SPECIAL))
    assert TOKENISER.encode(" \n ") == []
