"""“a” and “an”: by sound, and repaired wherever a word before which they stand was changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.build.captions.edits import apply_changes, edit_caption
from contrapose.build.captions.lexicon import (
    article_for,
    load_lexicon,
    pluralize,
    singularize,
    verb_forms,
)


@pytest.mark.parametrize(
    ("word", "article"),
    [
        ("apple", "an"), ("ivory", "an"), ("upright", "an"), ("umbrella", "an"), ("crimson", "a"),
        ("hour", "an"), ("honest", "an"), ("horse", "a"), ("house", "a"), ("unicorn", "a"),
        ("uniform", "a"), ("union", "a"), ("unusual", "an"), ("unidentified", "an"),
        ("uninhabited", "an"), ("unimportant", "an"), ("usual", "a"), ("used", "a"),
        ("usher", "an"),
        ("utensil", "a"), ("one", "a"), ("one-way", "a"), ("European", "a"), ("eight", "an"),
        ("8", "an"), ("18", "an"), ("11", "an"), ("80", "an"), ("1", "a"), ("100", "a"),
        ("LCD", "an"), ("SUV", "an"), ("TV", "a"), ("UFO", "a"), ("X-ray", "an"), ("t-shirt", "a"),
        ("NASA", "a"), ("Elephant", "an"), ("", "a"),
    ],
)  # fmt: skip
def test_article_for_a_word(word: str, article: str) -> None:
    assert article_for(word) == article


@pytest.mark.parametrize(
    ("caption", "old", "new", "expected"),
    [
        ("a white boat", "white", "ivory", "an ivory boat"),
        ("An orange cat", "orange", "white", "A white cat"),
        ("A white cat", "white", "orange", "An orange cat"),
        ("A WHITE CAT", "WHITE", "orange", "AN ORANGE CAT"),
        ("he saw a white cat", "cat", "owl", "he saw a white owl"),
        ("the white cat", "white", "orange", "the orange cat"),
        ("a white cat", "white ", "", "a cat"),
        ("an old car", "old ", "", "a car"),
    ],
)
def test_articles_are_repaired(caption: str, old: str, new: str, expected: str) -> None:
    start = caption.index(old)
    made = edit_caption(caption, "x", [(start, start + len(old), new)])
    assert made.text == expected
    assert apply_changes(caption, made.changes) == expected


def test_articles_can_be_kept() -> None:
    made = edit_caption("a white boat", "x", [(2, 7, "ivory")], articles=False)
    assert made.text == "a ivory boat"
    assert [(one.before, one.after) for one in made.changes] == [("white", "ivory")]


WORDS = st.sampled_from(
    ("apple", "horse", "ivory", "hour", "unicorn", "owl", "cat", "egg", "uniform", "orange")
)


@given(st.lists(WORDS, min_size=1, max_size=5), st.data())
def test_every_article_fits_after_any_change(nouns: list[str], data: st.DataObject) -> None:
    caption = " and ".join(f"{article_for(noun)} {noun}" for noun in nouns)
    place = data.draw(st.integers(0, len(nouns) - 1))
    new = data.draw(WORDS)
    start = len(" and ".join(f"{article_for(noun)} {noun}" for noun in nouns[: place + 1]))
    made = edit_caption(caption, "x", [(start - len(nouns[place]), start, new)])
    words = made.text.split()
    for article, noun in zip(words[::3], words[1::3], strict=True):
        assert article == article_for(noun)
    assert words[1::3] == [*nouns[:place], new, *nouns[place + 1 :]]


@pytest.mark.parametrize(
    ("lemma", "forms"),
    [
        ("walk", "walk walks walking walked walked"),
        ("hold", "hold holds holding held held"),
        ("ride", "ride rides riding rode ridden"),
        ("travel", "travel travels traveling traveled traveled"),
        ("sit", "sit sits sitting sat sat"),
        ("lie", "lie lies lying lay lain"),
        ("carry", "carry carries carrying carried carried"),
        ("toss", "toss tosses tossing tossed tossed"),
        ("gaze", "gaze gazes gazing gazed gazed"),
        ("drop", "drop drops dropping dropped dropped"),
    ],
)
def test_verbs(lemma: str, forms: str) -> None:
    assert " ".join(verb_forms(lemma).values()) == forms


def test_a_phrase_is_inflected_at_its_head() -> None:
    assert verb_forms("travel on")["ing"] == "traveling on"


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("dog", "dogs"), ("box", "boxes"), ("bench", "benches"), ("dish", "dishes"),
        ("glass", "glasses"), ("bus", "buses"), ("pony", "ponies"), ("toy", "toys"),
        ("man", "men"), ("woman", "women"), ("fireman", "firemen"), ("child", "children"),
        ("sheep", "sheep"), ("knife", "knives"), ("potato", "potatoes"), ("horse", "horses"),
        ("vase", "vases"), ("cookie", "cookies"), ("tennis ball", "tennis balls"),
        ("person", "people"), ("house", "houses"),
    ],
)  # fmt: skip
def test_nouns(one: str, many: str) -> None:
    assert pluralize(one) == many
    if many != "glasses":  # which are worn more often than drunk from
        assert singularize(many) == one
    assert singularize(one) == one


def test_the_plural_of_every_object_leads_back() -> None:
    words = {word for sides in load_lexicon().objects.values() for side in sides for word in side}
    for noun in sorted(word for word in words if singularize(word) == word):
        assert singularize(pluralize(noun)) == noun
        assert load_lexicon().classes(pluralize(noun)) >= load_lexicon().classes(noun)
