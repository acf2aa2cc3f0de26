"""The contrasts of the package's own table, turned for looking up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from contrapose.build.captions.inflection import VerbForm, plural, singular, verb_forms
from contrapose.build.captions.tables import table

Sides = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Contrast:
    """Relations that exclude each other.

    Attributes:
        sides: phrases, or verbs in their base form; those of one side may hold together.
        verbs: whether they are verbs.
        intransitive: verbs that here take no object.
        subjects: classes of the noun that must come before; any where there are none.
        objects: classes of the noun that must follow; any where there are none.
        words: nouns that may follow beside those of the classes.
        only: what may be replaced; all where there are none.
    """

    sides: Sides
    verbs: bool
    intransitive: bool
    subjects: frozenset[str]
    objects: frozenset[str]
    words: frozenset[str]
    only: frozenset[str]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """What the table says.

    Attributes:
        attributes: classes, each with its sides.
        objects: the same for nouns, in the singular.
        relations: relations and the verbs that stand for them.
        nouns: of every noun, singular or plural, its classes.
        verbs: of every form of a known verb, its base form and which form it is.
    """

    attributes: Mapping[str, Sides]
    objects: Mapping[str, Sides]
    relations: tuple[Contrast, ...]
    nouns: Mapping[str, frozenset[str]]
    verbs: Mapping[str, tuple[str, VerbForm]]

    def classes(self, noun: str) -> frozenset[str]:
        """The classes of a noun, if it is known."""
        return self.nouns.get(noun, frozenset())

    def is_attribute(self, word: str) -> bool:
        """Whether a word is a known attribute."""
        return word in _attribute_words()


@cache
def lexicon() -> Lexicon:
    """The table, read once."""
    whole = table("contrasts.json")
    attributes = {name: _sides(sides) for name, sides in whole["attributes"].items()}
    objects = {name: _sides(sides) for name, sides in whole["objects"].items()}
    relations = tuple(_contrast(each) for each in whole["relations"])
    more = {name: tuple(words) for name, words in whole["more"].items()}
    return Lexicon(attributes, objects, relations, _nouns(objects, more), _verbs(relations))


@cache
def side_of(sides: Sides) -> Mapping[str, int]:
    """The side that each word stands on."""
    return {word: i for i, side in enumerate(sides) for word in side}


@cache
def relation_phrases() -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """Relations of several words by their first, the longest first."""
    known = {
        tuple(phrase.split()) for each in lexicon().relations if not each.verbs
        for side in each.sides for phrase in side if " " in phrase
    }  # fmt: skip
    found: dict[str, tuple[tuple[str, ...], ...]] = {}
    for words in sorted(known, key=lambda words: (-len(words), words)):
        found[words[0]] = (*found.get(words[0], ()), words)
    return found


@cache
def _attribute_words() -> frozenset[str]:
    sides = lexicon().attributes.values()
    return frozenset(word for each in sides for side in each for word in side)


def _sides(value: list[list[str]]) -> Sides:
    return tuple(tuple(side) for side in value)


def _contrast(value: Mapping[str, Any]) -> Contrast:
    return Contrast(
        sides=_sides(value.get("verbs") or value["phrases"]),
        verbs="verbs" in value,
        intransitive=bool(value.get("intransitive")),
        subjects=frozenset(value.get("subject", ())),
        objects=frozenset(value.get("object", ())),
        words=frozenset(value.get("words", ())),
        only=frozenset(value.get("from", ())),
    )


def _nouns(
    objects: Mapping[str, Sides], more: Mapping[str, tuple[str, ...]]
) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    listed = [(name, word) for name, sides in objects.items() for side in sides for word in side]
    listed += [(name, word) for name, words in more.items() for word in words]
    for name, word in listed:
        for form in (word, plural(singular(word)), singular(word)):
            found.setdefault(form, set()).add(name)
    return {word: frozenset(names) for word, names in found.items()}


def _verbs(relations: tuple[Contrast, ...]) -> dict[str, tuple[str, VerbForm]]:
    found: dict[str, tuple[str, VerbForm]] = {}
    for each in relations:
        for lemma in (word for side in each.sides for word in side if each.verbs):
            for form, word in verb_forms(lemma).items():
                found.setdefault(word, (lemma, form))
    # “lay” is far more often said of one who lies than the past of “lie”.
    found["lay"] = ("lay", "base")
    return found
