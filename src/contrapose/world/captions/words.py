"""Lexicon of the captions: for every value of a slot its words and how often each is used.

The weights are uneven on purpose: as in any language, one word is the usual one and the others are
rarer. Words of one value mean exactly the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from contrapose.world.scene import Relation

Slot = Literal["shape", "color", "size", "material", "pattern"]
SLOTS: tuple[Slot, ...] = ("shape", "color", "size", "material", "pattern")
ATTRIBUTES: tuple[Slot, ...] = ("color", "size", "material", "pattern")

WordPosition = Literal["size", "quality", "pattern", "color", "material", "noun", "after"]
"""Position of a word in a noun phrase; "after" is behind the noun."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word (or a few) for a value of a slot.

    Attributes:
        text: the word, or a few ("with stripes").
        weight: relative frequency among the words of its value.
        position: its position in a noun phrase.
        plural: of a noun.
    """

    text: str
    weight: float
    position: WordPosition
    plural: str = ""


@dataclass(frozen=True, slots=True)
class RelationWord:
    """One wording of a relation.

    Attributes:
        text: wording before the second object: "to the left of".
        weight: relative frequency.
        its: wording after both objects, where "it" is the second: "to its left"; None if it has
            none.
        heads: whether a sentence can begin with it.
    """

    text: str
    weight: float
    its: str | None = None
    heads: bool = True


def _noun_words(*words: tuple[str, float]) -> tuple[Word, ...]:
    return tuple(Word(text, weight, "noun", text + "s") for text, weight in words)


def _color_words(*words: tuple[str, float]) -> tuple[Word, ...]:
    return tuple(Word(text, weight, "color") for text, weight in words)


WORDS: Mapping[Slot, Mapping[str | None, tuple[Word, ...]]] = {
    "shape": {
        None: _noun_words(("thing", 0.5), ("object", 0.5)),
        "ball": _noun_words(("ball", 0.75), ("sphere", 0.25)),
        "cube": _noun_words(("cube", 0.75), ("block", 0.25)),
        "cylinder": _noun_words(("cylinder", 0.85), ("drum", 0.15)),
        "cone": _noun_words(("cone", 1.0)),
        "pyramid": _noun_words(("pyramid", 1.0)),
        "dome": _noun_words(("dome", 0.75), ("hemisphere", 0.25)),
        "pill": _noun_words(("pill", 0.6), ("capsule", 0.4)),
    },
    "color": {
        "red": _color_words(("red", 1.0)),
        "orange": _color_words(("orange", 1.0)),
        "yellow": _color_words(("yellow", 1.0)),
        "green": _color_words(("green", 1.0)),
        "cyan": _color_words(("cyan", 0.75), ("turquoise", 0.25)),
        "blue": _color_words(("blue", 1.0)),
        "purple": _color_words(("purple", 0.8), ("violet", 0.2)),
        "pink": _color_words(("pink", 1.0)),
        "brown": _color_words(("brown", 1.0)),
        "gray": _color_words(("gray", 0.7), ("grey", 0.3)),
    },
    "size": {
        "small": (Word("small", 0.65, "size"), Word("little", 0.35, "size")),
        "medium": (Word("medium-sized", 1.0, "size"),),
        "large": (Word("large", 0.55, "size"), Word("big", 0.45, "size")),
    },
    "material": {
        "rubber": (
            Word("rubber", 0.55, "material"),
            Word("matte", 0.25, "quality"),
            Word("dull", 0.12, "quality"),
            Word("made of rubber", 0.08, "after"),
        ),
        "metal": (
            Word("metal", 0.4, "material"),
            Word("shiny", 0.37, "quality"),
            Word("metallic", 0.15, "material"),
            Word("made of metal", 0.08, "after"),
        ),
    },
    "pattern": {
        "plain": (Word("plain", 1.0, "quality"),),
        "striped": (Word("striped", 0.8, "pattern"), Word("with stripes", 0.2, "after")),
        "checkered": (
            Word("checkered", 0.75, "pattern"),
            Word("with checks", 0.1, "after"),
            Word("checked", 0.15, "pattern"),
        ),
    },
}
"""The words of every value; the first of each can stand in every sentence."""

RELATION_WORDS: Mapping[Relation, tuple[RelationWord, ...]] = {
    "left of": (
        RelationWord("to the left of", 0.55, "to its left"),
        RelationWord("left of", 0.3),
        RelationWord("on the left of", 0.15, "on its left"),
    ),
    "right of": (
        RelationWord("to the right of", 0.55, "to its right"),
        RelationWord("right of", 0.3),
        RelationWord("on the right of", 0.15, "on its right"),
    ),
    "in front of": (
        RelationWord("in front of", 0.9, "in front of it"),
        RelationWord("closer to the camera than", 0.06, heads=False),
        RelationWord("nearer to the camera than", 0.04, heads=False),
    ),
    "behind": (
        RelationWord("behind", 0.8, "behind it"),
        RelationWord("farther from the camera than", 0.1, heads=False),
        RelationWord("in back of", 0.1, "in back of it"),
    ),
    "on top of": (
        RelationWord("on top of", 0.6, "on top of it"),
        RelationWord("standing on", 0.15, "standing on it"),
        RelationWord("on", 0.25, "on it"),
    ),
    "under": (
        RelationWord("under", 0.5, "under it"),
        RelationWord("beneath", 0.2, "beneath it"),
        RelationWord("below", 0.2, "below it"),
        RelationWord("underneath", 0.1, "underneath it"),
    ),
}
"""The words of every relation; words of opposite relations at one index match in style."""

NUMBERS: tuple[str, ...] = ("no", "one", "two", "three", "four", "five")
