"""Caption and mention values, sentence templates, and the text and vocabulary they give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from contrapose.world.captions.words import NUMBERS, RELATION_WORDS, WORDS, Slot, Word, WordPosition
from contrapose.world.sample import cumulative_weights
from contrapose.world.scene import Color, Material, Pattern, Relation, Shape, Size

Role = Literal["object", "attribute", "relation", "number"]
Opening = Literal["a", "the", "number"]


class Piece(NamedTuple):
    """Words of a caption with their role, slot and mention; role None is background."""

    text: str
    role: Role | None = None
    slot: str = ""
    mention: int = -1


@dataclass(frozen=True, slots=True)
class Mention:
    """Mention of one thing, or of several that look alike: its values and its choice of words.

    The first six fields and `count` are the values, the others the choice of words: indices into
    the tables of `words`.

    Attributes:
        thing: index in the scene of the thing that is meant; None if there is none.
        shape: None gives "thing".
        color: color; None leaves it out.
        size: size; None leaves it out.
        material: material; None leaves it out.
        pattern: pattern of the surface; None leaves it out.
        count: number of things.
        shape_word: index of the noun.
        color_word: index of the word for the color.
        size_word: index of the word for the size.
        material_word: index of the word for the material.
        pattern_word: index of the word for the pattern.
        number_word: 0 gives "one", 1 gives "a" where the count is one.
        order: 0 puts the pattern before the color, 1 after it.
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
        """Value of a slot; None if it is not mentioned."""
        value: str | None = getattr(self, slot)
        return value

    def choice(self, slot: Slot) -> int:
        """Index of the word chosen for a slot."""
        choice: int = getattr(self, slot + "_word")
        return choice

    def word(self, slot: Slot) -> Word:
        """Word chosen for a slot; the slot must be filled."""
        return WORDS[slot][self.value(slot)][self.choice(slot)]

    @property
    def crowded(self) -> bool:
        """Whether two word groups stand behind the noun, where only one fits."""
        behind = (
            self.value(slot) is not None and self.word(slot).position == "after"
            for slot in _ATTRIBUTE_SLOTS
        )
        return sum(behind) > 1

    def with_value(self, slot: Slot, value: str | None, word: int = 0) -> Mention:
        """Copy of the mention with another value in one slot."""
        changes: dict[str, Any] = {slot: value, slot + "_word": word}
        return replace(self, **changes)

    def with_count(self, count: int, number_word: int = 0) -> Mention:
        """Copy of the mention with another count."""
        return replace(self, count=count, number_word=number_word)


_POSITION_ORDERS: tuple[tuple[WordPosition, ...], ...] = (
    ("size", "quality", "pattern", "color", "material"),
    ("size", "quality", "color", "pattern", "material"),
)
_ATTRIBUTE_SLOTS: tuple[Slot, ...] = ("size", "material", "pattern", "color")


def noun_phrase(
    mention: Mention, index: int, opening: Opening, *, after: bool = True
) -> list[Piece]:
    """Noun phrase of a mention, as pieces.

    Args:
        mention: the mention.
        index: its index in the caption.
        opening: article or number at the start.
        after: whether words may stand behind the noun; if not, the first word of the value is
            taken instead. Only one such group fits behind a noun.
    """
    before: dict[WordPosition, list[Piece]] = {}
    behind: Piece | None = None
    for slot in _ATTRIBUTE_SLOTS:
        value = mention.value(slot)
        if value is None:
            continue
        words = WORDS[slot][value]
        word = words[mention.choice(slot)]
        if word.position == "after":
            if after and behind is None:
                behind = Piece(word.text, "attribute", slot, index)
                continue
            word = words[0]
        before.setdefault(word.position, []).append(Piece(word.text, "attribute", slot, index))
    noun = WORDS["shape"][mention.shape][mention.shape_word]
    many = opening == "number" and mention.count > 1
    pieces = [
        piece for position in _POSITION_ORDERS[mention.order] for piece in before.get(position, ())
    ]
    pieces.append(Piece(noun.plural if many else noun.text, "object", "shape", index))
    if behind is not None:
        pieces.append(behind)
    pieces.insert(0, _opening_piece(mention, index, opening, pieces[0].text))
    return pieces


def _opening_piece(mention: Mention, index: int, opening: Opening, following: str) -> Piece:
    if opening == "the":
        return Piece("the")
    article = "an" if following[0] in "aeiou" else "a"
    if opening == "a":
        return Piece(article)
    said = article if mention.count == 1 and mention.number_word else NUMBERS[mention.count]
    return Piece(said, "number", "count", index)


@dataclass(frozen=True, slots=True)
class Template:
    """Sentence template with gaps for mentions and the relation.

    Attributes:
        parts: words as they stand, or a gap: "all" the objects, joined; "be" is or are; "0" and "1"
            the two objects of a relation; "rel" the relation before the second object; "its" the
            relation after both.
        weight: relative frequency.
        openings: articles of the first and the second object of a relation.
        short: whether no words may stand behind a noun.
    """

    parts: tuple[str, ...]
    weight: float
    openings: tuple[Opening, Opening] = ("a", "a")
    short: bool = False


def _listing_template(text: str, weight: float) -> Template:
    return Template(tuple(text.split("|")), weight)


def _relation_template(
    text: str, weight: float, first: Opening = "a", second: Opening = "a", *, short: bool = False
) -> Template:
    return Template(tuple(text.split("|")), weight, (first, second), short)


LISTING_TEMPLATES: tuple[Template, ...] = (
    _listing_template("all", 0.46),
    _listing_template("there|be|all", 0.16),
    _listing_template("a picture of|all", 0.12),
    _listing_template("a photo of|all", 0.08),
    _listing_template("an image of|all", 0.05),
    _listing_template("this picture shows|all", 0.05),
    _listing_template("a scene with|all", 0.04),
    _listing_template("we see|all", 0.04),
)
"""Templates of captions that list things: one, several, or counted ones."""

RELATION_TEMPLATES: tuple[Template, ...] = (
    _relation_template("0|rel|1", 0.24),
    _relation_template("0|is|rel|1", 0.16),
    _relation_template("0|is|rel|1", 0.15, "the", "the"),
    _relation_template("0|rel|1", 0.08, "the", "the"),
    _relation_template("there is|0|rel|1", 0.10),
    _relation_template("a picture of|0|rel|1", 0.05),
    _relation_template("0|is|rel|1", 0.04, "the", "a"),
    _relation_template("0|rel|1", 0.04, "a", "the"),
    _relation_template("rel|1|is|0", 0.04),
    _relation_template("rel|1|there is|0", 0.03, "a", "the"),
    _relation_template("1|with|0|its", 0.05, short=True),
    _relation_template("a photo of|0|rel|1", 0.02),
)
"""Templates of captions of a relation; "0" is always the first of the two objects."""

LISTING_WEIGHTS = cumulative_weights([template.weight for template in LISTING_TEMPLATES])
RELATION_TEMPLATE_WEIGHTS = cumulative_weights([template.weight for template in RELATION_TEMPLATES])


_GAPS = frozenset({"all", "be", "0", "1", "rel", "its"})


def split_words(text: str) -> list[str]:
    """Split a caption into words, without commas."""
    return text.replace(",", "").split()


def _grammar_texts() -> Iterator[str]:
    yield "a an the is are and"
    yield from NUMBERS[1:]
    for table in WORDS.values():
        for words in table.values():
            for word in words:
                yield f"{word.text} {word.plural}"
    for relation in RELATION_WORDS.values():
        for way in relation:
            yield f"{way.text} {way.its or ''}"
    for template in (*LISTING_TEMPLATES, *RELATION_TEMPLATES):
        yield from (part for part in template.parts if part not in _GAPS)


VOCABULARY: tuple[str, ...] = tuple(
    sorted({word for text in _grammar_texts() for word in split_words(text)})
)
"""All words of the grammar, in alphabetical order, without the comma."""


Kind = Literal["one", "and", "list", "count", "relation"]
KINDS: tuple[Kind, ...] = ("one", "and", "list", "count", "relation")


@dataclass(frozen=True, slots=True)
class Span:
    """Word group of a caption's text: character offsets, role, mention and slot.

    Attributes:
        start: offset of its first character.
        end: offset after its last.
        role: role of the words; everything outside a span is background.
        mention: index of its mention in the caption; -1 for the relation.
        slot: a slot of the mention, "count", or "relation".
    """

    start: int
    end: int
    role: Role
    mention: int
    slot: str


@dataclass(frozen=True, slots=True)
class Caption:
    """Caption of a scene as a value, from which its text follows.

    Attributes:
        kind: "one" thing, this "and" that, a "list" of three or more, a "count" of each, or a
            "relation" between two.
        mentions: mentioned things; a relation holds from the first to the second, whatever their
            order in the sentence.
        relation: relation of the first to the second.
        template: index in `LISTING_TEMPLATES`, or in `RELATION_TEMPLATES` for relations.
        relation_word: index in the words of the relation.
    """

    kind: Kind
    mentions: tuple[Mention, ...]
    relation: Relation | None = None
    template: int = 0
    relation_word: int = 0

    @property
    def text(self) -> str:
        """The caption as text."""
        return " ".join([piece.text for piece in self.pieces()]).replace(" ,", ",")

    @property
    def spans(self) -> tuple[Span, ...]:
        """Word groups of the text, in reading order."""
        spans, end = [], -1
        for piece in self.pieces():
            if piece.text == ",":
                end += 1
                continue
            start, end = end + 1, end + 1 + len(piece.text)
            if piece.role is not None:
                spans.append(Span(start, end, piece.role, piece.mention, piece.slot))
        return tuple(spans)

    @property
    def openings(self) -> tuple[Opening, Opening]:
        """Articles of the two objects of a relation."""
        return RELATION_TEMPLATES[self.template].openings

    def with_mention(self, index: int, mention: Mention) -> Caption:
        """Copy of the caption with one mention replaced."""
        mentions = list(self.mentions)
        mentions[index] = mention
        return replace(self, mentions=tuple(mentions))

    def pieces(self) -> list[Piece]:
        """The words, each with its role, slot and mention."""
        if self.kind == "relation":
            return list(self._relation_pieces(RELATION_TEMPLATES[self.template]))
        return list(self._listing_pieces(LISTING_TEMPLATES[self.template]))

    def _listing_pieces(self, template: Template) -> Iterator[Piece]:
        counted = self.kind == "count"
        for part in template.parts:
            if part == "all":
                last = len(self.mentions) - 1
                for i, mention in enumerate(self.mentions):
                    if i:
                        yield Piece("and" if i == last else ",")
                    yield from noun_phrase(mention, i, "number" if counted else "a")
            elif part == "be":
                yield Piece("are" if counted and self.mentions[0].count > 1 else "is")
            else:
                yield Piece(part)

    def _relation_pieces(self, template: Template) -> Iterator[Piece]:
        for part in template.parts:
            if part in {"0", "1"}:
                i = int(part)
                yield from noun_phrase(
                    self.mentions[i], i, template.openings[i], after=not template.short
                )
            elif part in {"rel", "its"}:
                yield Piece(self._relation_text(template), "relation", "relation")
            else:
                yield Piece(part)

    def _relation_text(self, template: Template) -> str:
        """Relation words in a form that fits the template; the first word always fits."""
        if self.relation is None:
            raise ValueError("a caption of kind 'relation' has a relation")
        words = RELATION_WORDS[self.relation]
        word = words[self.relation_word]
        if "its" in template.parts:
            return word.its or words[0].its or ""
        return words[0].text if template.parts[0] == "rel" and not word.heads else word.text
