"""ARO's four word-order shuffles of a caption, with part-of-speech tags from its own grammar.

No tagger is needed: the word groups say which words are nouns and which are adjectives. A shuffle
that says the same again, or something else that is true of the scene, is drawn anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from contrapose.data.shuffles import (
    shuffle_nouns_and_adjectives,
    shuffle_other_words,
    shuffle_trigrams,
    shuffle_within_trigrams,
)
from contrapose.data.tagging import TaggedTokens, join_words
from contrapose.world.captions.caption import Caption, Mention, Piece
from contrapose.world.captions.truth import is_true
from contrapose.world.captions.words import ATTRIBUTES, WORDS, Slot
from contrapose.world.scene import Scene

ORDERS: tuple[str, ...] = (
    "nouns-and-adjectives",
    "all-but-nouns-and-adjectives",
    "within-trigrams",
    "trigrams",
)
_TRIES = 30
_ARTICLES = frozenset({"a", "an", "the"})
_PHRASE_TAGS = {"with": "IN", "of": "IN", "made": "VBN"}

_WORD_MEANINGS: dict[str, tuple[Slot, str | None]] = {
    text: (slot, value)
    for slot, table in WORDS.items()
    for value, words in table.items()
    for word in words
    for text in (word.text, word.plural)
    if text
}


def tag_words(caption: Caption) -> TaggedTokens:
    """Words of a caption with Penn Treebank tags.

    Objects are nouns and attributes adjectives; the words of a relation are prepositions
    throughout, so that "left" stays with "of".
    """
    return [(word, tag) for word, tag, _ in _tag_tokens(caption)]


def orders(
    caption: Caption, scene: Scene, rng: np.random.Generator
) -> tuple[str, str, str, str] | None:
    """Four shuffles of the caption's words, in the order of `ORDERS`.

    None if one of the four cannot be had: a caption with one noun and no adjective, say.
    """
    tokens = list(_tag_tokens(caption))
    pairs: TaggedTokens = [(word, tag) for word, tag, _ in tokens]
    plain = [word for word, _ in pairs]
    ways: list[Callable[[], list[str]]] = [
        lambda: shuffle_nouns_and_adjectives(pairs, rng),
        lambda: shuffle_other_words(pairs, rng),
        lambda: shuffle_within_trigrams(plain, rng),
        lambda: shuffle_trigrams(plain, rng),
    ]
    places = [mention for _, _, mention in tokens]
    found = []
    for i, way in enumerate(ways):
        for _ in range(_TRIES):
            shuffled = way()
            if _normalize_order(shuffled) == _normalize_order(plain):
                continue
            if i == 0 and _may_be_true(caption, scene, shuffled, places):
                continue
            found.append(join_words(shuffled))
            break
        else:
            return None
    return (found[0], found[1], found[2], found[3])


def _tag_tokens(caption: Caption) -> Iterator[tuple[str, str, int]]:
    """Words with their tags and the mention whose noun or adjective they are (-1 for none)."""
    for piece in caption.pieces():
        for word in re.findall(r"[\w-]+|,", piece.text):
            tag = _word_tag(word, piece)
            inside = tag.startswith(("NN", "JJ")) and piece.mention >= 0
            yield word, tag, piece.mention if inside else -1


def _word_tag(word: str, piece: Piece) -> str:
    if piece.role == "object":
        return "NNS" if word.endswith("s") else "NN"
    if piece.role == "attribute":
        return "JJ" if " " not in piece.text else _PHRASE_TAGS.get(word, "NN")
    if piece.role == "number":
        return "CD"
    if word in {"picture", "photo", "image", "scene", "camera"} and piece.role is None:
        return "NN"
    return "," if word == "," else "DT" if word in _ARTICLES else "IN"


def _normalize_order(words: list[str]) -> list[str]:
    """Words without articles, with adjacent adjectives sorted."""
    gist: list[str] = []
    run: list[str] = []
    for word in [*(word for word in words if word not in _ARTICLES), ""]:
        if _WORD_MEANINGS.get(word, ("shape", ""))[0] in ATTRIBUTES:
            run.append(word)
        else:
            gist += [*sorted(run), word]
            run = []
    return gist


def _may_be_true(caption: Caption, scene: Scene, words: list[str], places: list[int]) -> bool:
    """Whether shuffled nouns and adjectives may describe the scene.

    A noun phrase that makes no sense (two colours, two nouns) says nothing true.
    """
    mentions = [Mention(None, None, count=mention.count) for mention in caption.mentions]
    filled: set[tuple[int, Slot]] = set()
    for word, place in zip(words, places, strict=True):
        if place < 0:
            if word in _WORD_MEANINGS:
                return False
            continue
        if word not in _WORD_MEANINGS:
            return False
        slot, value = _WORD_MEANINGS[word]
        if (place, slot) in filled:
            return False
        filled.add((place, slot))
        mentions[place] = mentions[place].with_value(slot, value)
    return is_true(replace(caption, mentions=tuple(mentions)), scene) is not False
