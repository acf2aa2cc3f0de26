"""Forms of verbs and nouns."""

from __future__ import annotations

import pytest

from contrapose.build.captions.inflection import plural, singular, verb_forms
from contrapose.build.captions.lexicon import lexicon


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
    assert plural(one) == many
    if many != "glasses":  # which are worn more often than drunk from
        assert singular(many) == one
    assert singular(one) == one


def test_the_plural_of_every_object_leads_back() -> None:
    words = {word for sides in lexicon().objects.values() for side in sides for word in side}
    for noun in sorted(word for word in words if singular(word) == word):
        assert singular(plural(noun)) == noun
        assert lexicon().classes(plural(noun)) >= lexicon().classes(noun)
