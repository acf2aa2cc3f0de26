"""Every word that a caption can hold, read off the tables."""

from __future__ import annotations

from collections.abc import Iterator

from contrapose.world.captions.templates import LISTING, RELATING
from contrapose.world.captions.words import NUMBERS, RELATION_WORDS, WORDS

_GAPS = frozenset({"all", "be", "0", "1", "rel", "its"})


def words(text: str) -> list[str]:
    """The words of a caption, without its commas."""
    return text.replace(",", "").split()


def _texts() -> Iterator[str]:
    yield "a an the is are and"
    yield from NUMBERS[1:]
    for table in WORDS.values():
        for each in table.values():
            for word in each:
                yield f"{word.text} {word.plural}"
    for relation in RELATION_WORDS.values():
        for way in relation:
            yield f"{way.text} {way.its or ''}"
    for template in (*LISTING, *RELATING):
        yield from (part for part in template.parts if part not in _GAPS)


VOCABULARY: tuple[str, ...] = tuple(sorted({word for text in _texts() for word in words(text)}))
"""The words, in alphabetical order; the comma, which is no word, comes on top of them."""
