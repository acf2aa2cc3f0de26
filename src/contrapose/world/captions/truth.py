"""Truth value of a caption on a scene, and ARO's four word-order shuffles that are not true.

The shuffles need no tagger: the word groups give nouns and adjectives. A shuffle that means the
same again, or something else that is true of the scene, is drawn anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from contrapose.data.tagging import (
    TaggedTokens,
    join_words,
    shuffle_nouns_and_adjectives,
    shuffle_other_words,
    shuffle_trigrams,
    shuffle_within_trigrams,
)
from contrapose.world.captions.caption import Caption, Mention, Piece
from contrapose.world.captions.words import ATTRIBUTES, WORDS, Slot
from contrapose.world.scene import OPPOSITE, Relation, Scene, Thing, ground_thing, holds


def fits(mention: Mention, thing: Thing) -> bool:
    """Whether every value of the mention, except its count, is true of the thing."""
    return (
        (mention.shape is None or mention.shape == thing.shape)
        and (mention.color is None or mention.color == thing.color)
        and (mention.size is None or mention.size == thing.size)
        and (mention.material is None or mention.material == thing.material)
        and (mention.pattern is None or mention.pattern == thing.pattern)
    )


def matching_things(mention: Mention, scene: Scene) -> list[int]:
    """Indices of the things that a mention fits."""
    return [i for i, thing in enumerate(scene.things) if fits(mention, thing)]


def could_hold(scene: Scene, first: int, relation: Relation, second: int) -> bool:
    """Whether a relation holds, or is too close to call."""
    if holds(scene, first, relation, second):
        return True
    if relation == "on top of":
        return _is_above(scene, first, second)
    if relation == "under":
        return _is_above(scene, second, first)
    if ground_thing(scene, first) == ground_thing(scene, second):
        return False
    return not holds(scene, first, OPPOSITE[relation], second)


def is_true(caption: Caption, scene: Scene) -> bool | None:
    """Truth value of a caption on a scene; None when in doubt.

    "a red cube and a blue ball" asks for two different things that fit; "two red cubes" for exactly
    two; a relation for some pair in which it holds beyond doubt. A relation is false only if it is
    false beyond doubt for every pair, and "the" leaves doubt when several things fit and the
    answer depends on which is meant.
    """
    things = [matching_things(mention, scene) for mention in caption.mentions]
    if not all(things):
        return False
    if caption.kind == "relation":
        return _check_relation(caption, scene, things[0], things[1])
    if caption.kind == "count":
        return _check_counts(caption, things)
    return _can_assign(things)


def _check_relation(
    caption: Caption, scene: Scene, firsts: Sequence[int], seconds: Sequence[int]
) -> bool | None:
    relation = caption.relation
    if relation is None:
        raise ValueError("a caption of kind 'relation' has a relation")
    pairs = [(first, second) for first in firsts for second in seconds if first != second]
    if not any(could_hold(scene, first, relation, second) for first, second in pairs):
        return False
    held = [holds(scene, first, relation, second) for first, second in pairs]
    opening, other = caption.openings
    unclear = (opening == "the" and len(firsts) > 1) or (other == "the" and len(seconds) > 1)
    if all(held) if unclear else any(held):
        return True
    return None


def _check_counts(caption: Caption, things_of: Sequence[Sequence[int]]) -> bool | None:
    """Truth value of exact counts; None if two mentions could mean one thing."""
    if sum(map(len, things_of)) > len({thing for things in things_of for thing in things}):
        return None
    return all(
        len(things) == mention.count
        for mention, things in zip(caption.mentions, things_of, strict=True)
    )


def _can_assign(things_of: Sequence[Sequence[int]], used: frozenset[int] = frozenset()) -> bool:
    """Whether the mentions can be assigned to distinct things."""
    if not things_of:
        return True
    return any(
        _can_assign(things_of[1:], used | {thing}) for thing in things_of[0] if thing not in used
    )


def _is_above(scene: Scene, first: int, second: int) -> bool:
    """Whether the first thing stands on the second, directly or not."""
    below = scene.things[first].on
    return below is not None and (below == second or _is_above(scene, below, second))


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

    None if one of the four does not exist, as for a caption with one noun and no adjective.
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
    mentions = [mention for _, _, mention in tokens]
    texts = []
    for i, way in enumerate(ways):
        for _ in range(_TRIES):
            shuffled = way()
            if _normalize_order(shuffled) == _normalize_order(plain):
                continue
            if i == 0 and _may_be_true(caption, scene, shuffled, mentions):
                continue
            texts.append(join_words(shuffled))
            break
        else:
            return None
    return (texts[0], texts[1], texts[2], texts[3])


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


def _may_be_true(caption: Caption, scene: Scene, words: list[str], mention_of: list[int]) -> bool:
    """Whether shuffled nouns and adjectives may describe the scene.

    A noun phrase that makes no sense (two colors, two nouns) is not true.
    """
    mentions = [Mention(None, None, count=mention.count) for mention in caption.mentions]
    filled: set[tuple[int, Slot]] = set()
    for word, index in zip(words, mention_of, strict=True):
        if index < 0:
            if word in _WORD_MEANINGS:
                return False
            continue
        if word not in _WORD_MEANINGS:
            return False
        slot, value = _WORD_MEANINGS[word]
        if (index, slot) in filled:
            return False
        filled.add((index, slot))
        mentions[index] = mentions[index].with_value(slot, value)
    return is_true(replace(caption, mentions=tuple(mentions)), scene) is not False
