"""A caption as a value: what it says and how, from which its text follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from contrapose.world.captions.mention import Mention, Opening, Piece, Role, phrase
from contrapose.world.captions.templates import LISTING, RELATING, Template
from contrapose.world.captions.words import RELATION_WORDS
from contrapose.world.relations import Relation

Kind = Literal["one", "and", "list", "count", "relation"]
KINDS: tuple[Kind, ...] = ("one", "and", "list", "count", "relation")


@dataclass(frozen=True, slots=True)
class Span:
    """A word group of a caption's text.

    Attributes:
        start: offset of its first character.
        end: offset after its last.
        role: what the words are; everything outside a span is background.
        mention: position in the caption of the mention it belongs to; -1 for the relation.
        slot: which slot it says: a slot of the mention, "count", or "relation".
    """

    start: int
    end: int
    role: Role
    mention: int
    slot: str


@dataclass(frozen=True, slots=True)
class Caption:
    """What is said of a scene.

    Attributes:
        kind: "one" thing is there, this "and" that, a "list" of three or more, a "count" of each,
            or a "relation" between two.
        mentions: what it speaks of. In a relation the first stands in it to the second, wherever
            they are in the sentence.
        relation: of the first to the second.
        template: position in `LISTING`, or in `RELATING` for relations.
        relation_word: position in the words of the relation.
    """

    kind: Kind
    mentions: tuple[Mention, ...]
    relation: Relation | None = None
    template: int = 0
    relation_word: int = 0

    @property
    def text(self) -> str:
        """The caption in words."""
        return " ".join([piece.text for piece in self.pieces()]).replace(" ,", ",")

    @property
    def spans(self) -> tuple[Span, ...]:
        """The word groups of the text, in its order."""
        found, end = [], -1
        for piece in self.pieces():
            if piece.text == ",":
                end += 1
                continue
            start, end = end + 1, end + 1 + len(piece.text)
            if piece.role is not None:
                found.append(Span(start, end, piece.role, piece.mention, piece.slot))
        return tuple(found)

    @property
    def openings(self) -> tuple[Opening, Opening]:
        """How the two objects of a relation are introduced."""
        return RELATING[self.template].openings

    def pieces(self) -> list[Piece]:
        """The words, with what they stand for."""
        if self.kind == "relation":
            return list(self._relating(RELATING[self.template]))
        return list(self._listing(LISTING[self.template]))

    def _listing(self, template: Template) -> Iterator[Piece]:
        counted = self.kind == "count"
        for part in template.parts:
            if part == "all":
                last = len(self.mentions) - 1
                for i, mention in enumerate(self.mentions):
                    if i:
                        yield Piece("and" if i == last else ",")
                    yield from phrase(mention, i, "number" if counted else "a")
            elif part == "be":
                yield Piece("are" if counted and self.mentions[0].count > 1 else "is")
            else:
                yield Piece(part)

    def _relating(self, template: Template) -> Iterator[Piece]:
        for part in template.parts:
            if part in {"0", "1"}:
                i = int(part)
                yield from phrase(
                    self.mentions[i], i, template.openings[i], after=not template.short
                )
            elif part in {"rel", "its"}:
                yield Piece(self._relation(template), "relation", "relation")
            else:
                yield Piece(part)

    def _relation(self, template: Template) -> str:
        """The relation in a form that fits the sentence; its first word always does."""
        if self.relation is None:
            raise ValueError("a caption of kind 'relation' has a relation")
        words = RELATION_WORDS[self.relation]
        word = words[self.relation_word]
        if "its" in template.parts:
            return word.its or words[0].its or ""
        return words[0].text if template.parts[0] == "rel" and not word.heads else word.text
