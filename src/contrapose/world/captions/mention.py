"""One object as a caption speaks of it, and the words that come of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from contrapose.world.captions.words import NUMBERS, WORDS, Place, Slot, Word
from contrapose.world.scene import Color, Material, Pattern, Shape, Size

Role = Literal["object", "attribute", "relation", "number"]
Opening = Literal["a", "the", "number"]


class Piece(NamedTuple):
    """Some words of a caption, and what they stand for; role None is background."""

    text: str
    role: Role | None = None
    slot: str = ""
    mention: int = -1


@dataclass(frozen=True, slots=True)
class Mention:
    """What is said of one thing, or of several alike.

    The first six fields and `count` are what is said, the others how it is said: positions in the
    tables of `words`.

    Attributes:
        thing: position in the scene of the thing that was meant; None if none is.
        shape: None says "thing".
        color: None says nothing of it; so for the next three.
        size: how large.
        material: what it is made of.
        pattern: of its surface.
        count: how many.
        shape_word: which noun.
        color_word: which word for the colour.
        size_word: which word for the size.
        material_word: which word for the material.
        pattern_word: which word for the pattern.
        number_word: 0 says "one", 1 says "a" where the count is one.
        order: 0 puts the pattern before the colour, 1 after it.
    """

    thing: int | None
    shape: Shape | None
    color: Color | None = None
    size: Size | None = None
    material: Material | None = None
    pattern: Pattern | None = None
    count: int = 1
    shape_word: int = 0
    color_word: int = 0
    size_word: int = 0
    material_word: int = 0
    pattern_word: int = 0
    number_word: int = 0
    order: int = 0

    def value(self, slot: Slot) -> str | None:
        """What is said in a slot; None if nothing is."""
        value: str | None = getattr(self, slot)
        return value

    def choice(self, slot: Slot) -> int:
        """Which word says it."""
        choice: int = getattr(self, slot + "_word")
        return choice

    def word(self, slot: Slot) -> Word:
        """The word that says it; the slot must be filled."""
        return WORDS[slot][self.value(slot)][self.choice(slot)]

    @property
    def crowded(self) -> bool:
        """Whether two groups of words want to stand behind the noun, where one fits."""
        behind = (
            self.value(slot) is not None and self.word(slot).place == "after" for slot in _SAID
        )
        return sum(behind) > 1

    def saying(self, slot: Slot, value: str | None, word: int = 0) -> Mention:
        """The same mention with another value in one slot."""
        changes: dict[str, Any] = {slot: value, slot + "_word": word}
        return replace(self, **changes)

    def counting(self, count: int, number_word: int = 0) -> Mention:
        """The same mention of another number of things."""
        return replace(self, count=count, number_word=number_word)


_PLACES: tuple[tuple[Place, ...], ...] = (
    ("size", "quality", "pattern", "color", "material"),
    ("size", "quality", "color", "pattern", "material"),
)
_SAID: tuple[Slot, ...] = ("size", "material", "pattern", "color")


def phrase(mention: Mention, index: int, opening: Opening, *, after: bool = True) -> list[Piece]:
    """The noun phrase of a mention.

    Args:
        mention: what to say.
        index: its position in the caption, for the pieces.
        opening: how the phrase begins.
        after: whether words may stand behind the noun; if not, the first word of the value is
            taken instead. Only one such group fits behind a noun.
    """
    before: dict[Place, list[Piece]] = {}
    behind: Piece | None = None
    for slot in _SAID:
        value = mention.value(slot)
        if value is None:
            continue
        words = WORDS[slot][value]
        word = words[mention.choice(slot)]
        if word.place == "after":
            if after and behind is None:
                behind = Piece(word.text, "attribute", slot, index)
                continue
            word = words[0]
        before.setdefault(word.place, []).append(Piece(word.text, "attribute", slot, index))
    noun = WORDS["shape"][mention.shape][mention.shape_word]
    many = opening == "number" and mention.count > 1
    pieces = [piece for place in _PLACES[mention.order] for piece in before.get(place, ())]
    pieces.append(Piece(noun.plural if many else noun.text, "object", "shape", index))
    if behind is not None:
        pieces.append(behind)
    pieces.insert(0, _opening(mention, index, opening, pieces[0].text))
    return pieces


def _opening(mention: Mention, index: int, opening: Opening, following: str) -> Piece:
    if opening == "the":
        return Piece("the")
    article = "an" if following[0] in "aeiou" else "a"
    if opening == "a":
        return Piece(article)
    said = article if mention.count == 1 and mention.number_word else NUMBERS[mention.count]
    return Piece(said, "number", "count", index)
