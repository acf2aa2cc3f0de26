"""Annotations of scene examples: lazily rendered images, region masks, and parsed captions.

The language is small and its sentences differ by their words, so a caption's value, word groups and
mentioned things follow from its text: no table has to travel with the examples, and captions read
from a file can be parsed too. Shuffled captions are no sentences; their word groups follow from the
words alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Self

from contrapose.data import Example, ImageRef
from contrapose.data.tagging import A, O, R, Tagger, WordGroups, collect_groups, tag_groups
from contrapose.errors import InputError
from contrapose.world.captions import Caption, Kind, Mention, Span
from contrapose.world.captions.caption import LISTING_TEMPLATES, RELATION_TEMPLATES, Role, Template
from contrapose.world.captions.truth import matching_things
from contrapose.world.captions.words import ATTRIBUTES, NUMBERS, RELATION_WORDS, WORDS, Slot
from contrapose.world.scene import Relation, Scene

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

SIZE = 96
"""Default width and height of an image, in pixels."""
RENDERER_VERSION = "1"
"""Part of an image's content id; to be raised when the renderer's output for a scene changes."""


@dataclass(frozen=True, slots=True)
class SceneImage:
    """Image source that renders a scene on demand, for `ImageRef.source`.

    Attributes:
        scene: the scene that is rendered.
        size: width and height in pixels.
    """

    scene: Scene
    size: int = SIZE

    @property
    def content(self) -> str:
        """Content hash of everything that decides the pixels."""
        text = f"{RENDERER_VERSION}|{self.size}|{self.scene.to_json()}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> Sequence[Image]:
        """Render many images, those of one size in one batch."""
        from PIL import Image

        from contrapose.world.render import render

        drawn: dict[int, Image.Image] = {}
        for size in dict.fromkeys(source.size for source in sources):
            places = [i for i, source in enumerate(sources) if source.size == size]
            arrays = render([sources[i].scene for i in places], size).images.numpy()
            drawn.update(
                (i, Image.fromarray(array)) for i, array in zip(places, arrays, strict=True)
            )
        return [drawn[i] for i in range(len(sources))]


def scene_of(ref: ImageRef) -> Scene:
    """The scene behind an image.

    Raises:
        InputError: the image is not drawn from a scene.
    """
    if not isinstance(ref.source, SceneImage):
        raise InputError(f"the image {ref.key} is not drawn from a scene.")
    return ref.source.scene


def index_maps(scenes: Sequence[Scene], size: int = SIZE) -> NDArray[np.int8]:
    """(n, size, size) index of the thing visible in each pixel; −1 for ground and sky."""
    from contrapose.world import render

    maps: NDArray[np.int8] = render.index_maps(render.pack(scenes), size).numpy()
    return maps


def regions(example: Example, image: int = 0, size: int = SIZE) -> NDArray[np.bool_]:
    """(k, size, size) masks of the visible things of one of an example's images, in scene order.

    `find_mentioned_things` gives those that a caption mentions.

    Raises:
        InputError: the image is not drawn from a scene.
    """
    scene = scene_of(example.images[image])
    index = index_maps([scene], size)[0]
    import numpy as np

    masks: NDArray[np.bool_] = index[None] == np.arange(len(scene.things))[:, None, None]
    return masks


_OPENINGS: Mapping[str, int] = {"a": 1, "an": 1, "the": 1} | {
    word: number for number, word in enumerate(NUMBERS) if number
}


@dataclass(frozen=True, slots=True)
class _Meaning:
    """Meaning of a word or a few: a slot's value, or a relation."""

    slot: str
    value: str | None
    choice: int
    after: bool = False
    its: bool = False


@dataclass(frozen=True, slots=True)
class _ParsedPhrase:
    """Parsed noun phrase: its mention and its opening word."""

    mention: Mention
    opening: str


@dataclass(frozen=True, slots=True)
class _RelationWords:
    """Parsed words of a relation."""

    relation: Relation
    choice: int
    its: bool


_SentencePart = str | _ParsedPhrase | _RelationWords


@lru_cache(maxsize=4096)
def parse_caption(text: str) -> Caption | None:
    """Parse a text into its caption; None when the grammar does not produce it.

    Where two captions have one text ("a" can be a count of one), the simpler is given.
    """
    parts = list(_parse_parts(_split_words(text)))
    phrases = [part for part in parts if isinstance(part, _ParsedPhrase)]
    for caption in (*_relation_captions(parts, phrases), *_listing_captions(parts, phrases)):
        if caption.text == text:
            return caption
    return None


def word_groups(example: Example) -> tuple[tuple[Span, ...], ...]:
    """Word groups of each caption of an example: objects, attributes, relation, numbers."""
    return tuple(word_spans(text) for text in example.texts)


def word_spans(text: str) -> tuple[Span, ...]:
    """Word groups of a text; those of a shuffled caption belong to no mention (-1)."""
    caption = parse_caption(text)
    return caption.spans if caption is not None else tuple(_loose_spans(text))


def find_mentioned_things(
    example: Example, text: int = 0, image: int = 0
) -> tuple[tuple[int, ...], ...]:
    """For each mention of a caption, the things of an image that it fits, in `regions` order.

    Empty where the caption says what is not there, and for shuffled captions.
    """
    caption = parse_caption(example.texts[text])
    if caption is None:
        return ()
    scene = scene_of(example.images[image])
    return tuple(tuple(matching_things(mention, scene)) for mention in caption.mentions)


def _split_words(text: str) -> list[str]:
    return re.findall(r"[\w-]+|,", text)


@cache
def _word_meanings() -> Mapping[tuple[str, ...], _Meaning]:
    meanings: dict[tuple[str, ...], _Meaning] = {}
    for slot, table in WORDS.items():
        for value, words in table.items():
            for choice, word in enumerate(words):
                for form in filter(None, (word.text, word.plural)):
                    meaning = _Meaning(slot, value, choice, after=word.position == "after")
                    meanings[tuple(form.split())] = meaning
    for relation, ways in RELATION_WORDS.items():
        for choice, way in enumerate(ways):
            meanings[tuple(way.text.split())] = _Meaning("relation", relation, choice)
            if way.its:
                meanings[tuple(way.its.split())] = _Meaning("relation", relation, choice, its=True)
    return meanings


_MAX_WORDS = 6


def _longest_meaning(words: Sequence[str], at: int) -> tuple[_Meaning, int] | None:
    """Longest known word group that begins here, and its length in words."""
    for length in range(min(_MAX_WORDS, len(words) - at), 0, -1):
        meaning = _word_meanings().get(tuple(words[at : at + length]))
        if meaning is not None:
            return meaning, length
    return None


def _parse_parts(words: Sequence[str]) -> Iterator[_SentencePart]:
    """Split words into noun phrases, relations, and the words between them."""
    at = 0
    while at < len(words):
        phrase = _parse_phrase(words, at)
        if phrase is not None:
            yield phrase[0]
            at = phrase[1]
            continue
        match = _longest_meaning(words, at)
        if match is not None and match[0].slot == "relation":
            meaning, length = match
            relation: Relation = meaning.value  # type: ignore[assignment]
            yield _RelationWords(relation, meaning.choice, meaning.its)
            at += length
        else:
            yield words[at]
            at += 1


def _parse_phrase(words: Sequence[str], at: int) -> tuple[_ParsedPhrase, int] | None:
    """Parse the noun phrase that begins here; returns it and its end."""
    if words[at] not in _OPENINGS:
        return None
    opening = words[at]
    mention = Mention(None, None, count=_OPENINGS[opening])
    said: list[str] = []
    at += 1
    while at < len(words):
        match = _longest_meaning(words, at)
        if match is None or match[0].slot not in WORDS or match[0].after:
            return None
        meaning, length = match
        mention = mention.with_value(_as_slot(meaning.slot), meaning.value, meaning.choice)
        said.append(meaning.slot)
        at += length
        if meaning.slot == "shape":
            break
    else:
        return None
    behind = _longest_meaning(words, at) if at < len(words) else None
    if behind is not None and behind[0].after:
        meaning, length = behind
        mention = mention.with_value(_as_slot(meaning.slot), meaning.value, meaning.choice)
        at += length
    if "pattern" in said and "color" in said[: said.index("pattern")]:
        mention = replace(mention, order=1)
    return _ParsedPhrase(mention, "a" if opening == "an" else opening), at


def _as_slot(name: str) -> Slot:
    slot: Slot = name  # type: ignore[assignment]
    return slot


def _relation_captions(
    parts: Sequence[_SentencePart], phrases: Sequence[_ParsedPhrase]
) -> Iterator[Caption]:
    said = [part for part in parts if isinstance(part, _RelationWords)]
    if len(said) != 1 or len(phrases) != 2:
        return
    for number, template in enumerate(RELATION_TEMPLATES):
        order = [part for part in template.parts if part in {"0", "1"}]
        first, second = phrases if order == ["0", "1"] else phrases[::-1]
        if template.openings == (first.opening, second.opening) and said[0].its == (
            "its" in template.parts
        ):
            mentions = (first.mention, second.mention)
            yield Caption("relation", mentions, said[0].relation, number, said[0].choice)


def _listing_captions(
    parts: Sequence[_SentencePart], phrases: Sequence[_ParsedPhrase]
) -> Iterator[Caption]:
    if not phrases:
        return
    counted = any(phrase.opening not in {"a", "the"} for phrase in phrases)
    kinds: dict[int, Kind] = {1: "one", 2: "and"}
    kind: Kind = "count" if counted else kinds.get(len(phrases), "list")
    mentions = tuple(
        replace(phrase.mention, number_word=int(counted and phrase.opening == "a"))
        for phrase in phrases
    )
    for number, template in enumerate(LISTING_TEMPLATES):
        if _starts_with(template, parts):
            yield Caption(kind, mentions, template=number)


def _starts_with(template: Template, parts: Sequence[_SentencePart]) -> bool:
    opening = [word for part in template.parts[:-1] for word in part.split()]
    given = parts[: len(opening)]
    return all(
        one == other or (one == "be" and other in {"is", "are"})
        for one, other in zip(opening, given, strict=False)
    )


def _loose_spans(text: str) -> Iterator[Span]:
    """Word groups by the words alone, for texts outside the grammar."""
    offsets = [(word.start(), word.end()) for word in re.finditer(r"[\w-]+|,", text)]
    words = _split_words(text)
    at = 0
    while at < len(words):
        match = _longest_meaning(words, at)
        length, role, slot = 1, None, ""
        if match is not None:
            length, slot = match[1], match[0].slot
            role = _SLOT_ROLES[slot]
        elif words[at] in NUMBERS:
            role, slot = "number", "count"
        if role is not None:
            yield Span(offsets[at][0], offsets[at + length - 1][1], role, -1, slot)
        at += length


_SLOT_ROLES: Mapping[str, Role] = {
    "shape": "object",
    "relation": "relation",
    **dict.fromkeys(ATTRIBUTES, "attribute"),
}


ROLE_GROUPS: Mapping[str, str] = {"object": O, "relation": R, "attribute": A, "number": A}


def scene_groups(text: str) -> WordGroups:
    """Word groups of a caption of the built-in world; a shuffled one is read word by word."""
    return collect_groups(
        (ROLE_GROUPS[span.role], (span.start, span.end)) for span in word_spans(text)
    )


def text_groups(text: str, tagger: Tagger = "textblob") -> WordGroups:
    """Word groups of any text, by the scene grammar or by part-of-speech tags.

    Raises:
        MissingExtraError: the text is no caption of the built-in world, and the tagger's package is
            not installed.
    """
    return scene_groups(text) if parse_caption(text) is not None else tag_groups(text, tagger)
