"""From a caption's text back to the caption: its word groups, and what it speaks of.

The language is small and its sentences are told apart by their words, so the text is enough: no
table has to travel with the examples, and captions read from a file can be taken apart too.
Shuffled captions are no sentences; their word groups are read off the words alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from contrapose.data import Example
from contrapose.world.benchmark.image import scene_of
from contrapose.world.captions import Caption, Kind, Mention, Span
from contrapose.world.captions.mention import Role
from contrapose.world.captions.templates import LISTING, RELATING, Template
from contrapose.world.captions.truth import fitting
from contrapose.world.captions.words import ATTRIBUTES, NUMBERS, RELATION_WORDS, WORDS, Slot
from contrapose.world.relations import Relation

_OPENINGS: Mapping[str, int] = {"a": 1, "an": 1, "the": 1} | {
    word: number for number, word in enumerate(NUMBERS) if number
}


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What a word or a few stand for: a slot's value, or a relation."""

    slot: str
    value: str | None
    choice: int
    after: bool = False
    its: bool = False


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A noun phrase: its mention, and how it began."""

    mention: Mention
    opening: str


@dataclass(frozen=True, slots=True)
class _Relating:
    """The words of a relation."""

    relation: Relation
    choice: int
    its: bool


_Part = str | _Phrase | _Relating


@lru_cache(maxsize=4096)
def read_caption(text: str) -> Caption | None:
    """The caption of this text; None when it is no sentence of the captions' language.

    Where two captions have one text ("a" can be a count of one), the simpler is given.
    """
    parts = list(_parts(_words(text)))
    phrases = [part for part in parts if isinstance(part, _Phrase)]
    for caption in (*_relating(parts, phrases), *_listing(parts, phrases)):
        if caption.text == text:
            return caption
    return None


def word_groups(example: Example) -> tuple[tuple[Span, ...], ...]:
    """For each caption of an example its word groups: objects, attributes, relation, numbers."""
    return tuple(spans_of(text) for text in example.texts)


def spans_of(text: str) -> tuple[Span, ...]:
    """The word groups of a text; those of a shuffled one belong to no mention (-1)."""
    caption = read_caption(text)
    return caption.spans if caption is not None else tuple(_loose(text))


def mentioned(example: Example, text: int = 0, image: int = 0) -> tuple[tuple[int, ...], ...]:
    """For each mention of a caption the things of an image that it fits, as `regions` counts them.

    Empty where the caption says what is not there, and for shuffled captions.
    """
    caption = read_caption(example.texts[text])
    if caption is None:
        return ()
    scene = scene_of(example.images[image])
    return tuple(tuple(fitting(mention, scene)) for mention in caption.mentions)


def _words(text: str) -> list[str]:
    return re.findall(r"[\w-]+|,", text)


@cache
def _lexicon() -> Mapping[tuple[str, ...], _Meaning]:
    found: dict[tuple[str, ...], _Meaning] = {}
    for slot, table in WORDS.items():
        for value, words in table.items():
            for choice, word in enumerate(words):
                for form in filter(None, (word.text, word.plural)):
                    meaning = _Meaning(slot, value, choice, after=word.place == "after")
                    found[tuple(form.split())] = meaning
    for relation, ways in RELATION_WORDS.items():
        for choice, way in enumerate(ways):
            found[tuple(way.text.split())] = _Meaning("relation", relation, choice)
            if way.its:
                found[tuple(way.its.split())] = _Meaning("relation", relation, choice, its=True)
    return found


_LONGEST = 6


def _meaning(words: Sequence[str], at: int) -> tuple[_Meaning, int] | None:
    """The longest known group of words that begins here, and how long it is."""
    for length in range(min(_LONGEST, len(words) - at), 0, -1):
        meaning = _lexicon().get(tuple(words[at : at + length]))
        if meaning is not None:
            return meaning, length
    return None


def _parts(words: Sequence[str]) -> Iterator[_Part]:
    """Noun phrases, relations, and the words between them."""
    at = 0
    while at < len(words):
        phrase = _phrase(words, at)
        if phrase is not None:
            yield phrase[0]
            at = phrase[1]
            continue
        found = _meaning(words, at)
        if found is not None and found[0].slot == "relation":
            meaning, length = found
            relation: Relation = meaning.value  # type: ignore[assignment]
            yield _Relating(relation, meaning.choice, meaning.its)
            at += length
        else:
            yield words[at]
            at += 1


def _phrase(words: Sequence[str], at: int) -> tuple[_Phrase, int] | None:
    """The noun phrase that begins here, and where it ends."""
    if words[at] not in _OPENINGS:
        return None
    opening = words[at]
    mention = Mention(None, None, count=_OPENINGS[opening])
    said: list[str] = []
    at += 1
    while at < len(words):
        found = _meaning(words, at)
        if found is None or found[0].slot not in WORDS or found[0].after:
            return None
        meaning, length = found
        mention = mention.saying(_slot(meaning.slot), meaning.value, meaning.choice)
        said.append(meaning.slot)
        at += length
        if meaning.slot == "shape":
            break
    else:
        return None
    behind = _meaning(words, at) if at < len(words) else None
    if behind is not None and behind[0].after:
        meaning, length = behind
        mention = mention.saying(_slot(meaning.slot), meaning.value, meaning.choice)
        at += length
    if "pattern" in said and "color" in said[: said.index("pattern")]:
        mention = replace(mention, order=1)
    return _Phrase(mention, "a" if opening == "an" else opening), at


def _slot(name: str) -> Slot:
    slot: Slot = name  # type: ignore[assignment]
    return slot


def _relating(parts: Sequence[_Part], phrases: Sequence[_Phrase]) -> Iterator[Caption]:
    said = [part for part in parts if isinstance(part, _Relating)]
    if len(said) != 1 or len(phrases) != 2:
        return
    for number, template in enumerate(RELATING):
        order = [part for part in template.parts if part in {"0", "1"}]
        first, second = phrases if order == ["0", "1"] else phrases[::-1]
        if template.openings == (first.opening, second.opening) and said[0].its == (
            "its" in template.parts
        ):
            mentions = (first.mention, second.mention)
            yield Caption("relation", mentions, said[0].relation, number, said[0].choice)


def _listing(parts: Sequence[_Part], phrases: Sequence[_Phrase]) -> Iterator[Caption]:
    if not phrases:
        return
    counted = any(phrase.opening not in {"a", "the"} for phrase in phrases)
    kinds: dict[int, Kind] = {1: "one", 2: "and"}
    kind: Kind = "count" if counted else kinds.get(len(phrases), "list")
    mentions = tuple(
        replace(phrase.mention, number_word=int(counted and phrase.opening == "a"))
        for phrase in phrases
    )
    for number, template in enumerate(LISTING):
        if _begins(template, parts):
            yield Caption(kind, mentions, template=number)


def _begins(template: Template, parts: Sequence[_Part]) -> bool:
    opening = [word for part in template.parts[:-1] for word in part.split()]
    given = parts[: len(opening)]
    return all(
        one == other or (one == "be" and other in {"is", "are"})
        for one, other in zip(opening, given, strict=False)
    )


def _loose(text: str) -> Iterator[Span]:
    """Word groups by the words alone, for texts that are no sentences."""
    places = [(match.start(), match.end()) for match in re.finditer(r"[\w-]+|,", text)]
    words = _words(text)
    at = 0
    while at < len(words):
        found = _meaning(words, at)
        length, role, slot = 1, None, ""
        if found is not None:
            length, slot = found[1], found[0].slot
            role = _ROLES[slot]
        elif words[at] in NUMBERS:
            role, slot = "number", "count"
        if role is not None:
            yield Span(places[at][0], places[at + length - 1][1], role, -1, slot)
        at += length


_ROLES: Mapping[str, Role] = {
    "shape": "object",
    "relation": "relation",
    **dict.fromkeys(ATTRIBUTES, "attribute"),
}
