"""Word players of captions: object words O, relation words R, attribute words A, or single words.

Where captions follow a template it gives the group of each word: the grammar of `scenes`, or ARO's
(VG-Relation “the X is REL the Y”, VG-Attribution “the A1 X and the A2 Y”; relation and attributes
are the examples' tags, so that “to the left of” is one relation). Elsewhere a part-of-speech tagger
does: nouns are O, verbs and prepositions R, adjectives and numerals A. Or the user gives the spans
in a JSONL file with one line per caption; a span is the offset of its first character and of the
one after its last:

    {"id": "7", "caption": 0, "spans": {"O": [[4, 7], [21, 26]], "R": [[11, 20]]}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from contrapose.data import Example
from contrapose.data.tagging import (
    COMPOUND_RELATION,
    WORD_PATTERN,
    Tagger,
    group_by_changes,
    group_words,
    split_words,
)
from contrapose.diagnose.players import (
    FileKey,
    MissingPlayers,
    WordFinder,
    WordGroups,
    named_players,
    read_players,
)
from contrapose.errors import InputError, option
from contrapose.files import (
    MalformedError,
    Record,
)
from contrapose.models import CaptionTokenizer, Model
from contrapose.models.masking.text import Span, merge_spans
from contrapose.world.benchmark import SceneImage, parse_caption, scene_groups

NO_TEMPLATE = "its captions follow no template of ARO"
REPEATED_RELATION = "the relation's first token comes twice in a caption"
NO_RELATION = "the authors' script splits captions at their relation, and one has none"


@dataclass(frozen=True, slots=True)
class TemplateWords:
    """Word groups of ARO's captions."""

    name: str = "the captions' templates (ARO)"
    joint: bool = True

    def find(self, examples: Sequence[Example]) -> list[Sequence[WordGroups] | MissingPlayers]:
        """Word groups of each caption, where all captions of an example follow a template."""
        return [self._one(example) for example in examples]

    def _one(self, example: Example) -> Sequence[WordGroups] | MissingPlayers:
        relation, attributes = example.tags.get("relation"), example.tags.get("attributes")
        groups_of: list[WordGroups] = []
        for text in example.texts:
            groups = None
            if isinstance(relation, str):
                groups = relation_groups(text, relation)
            elif isinstance(attributes, str):
                groups = attribute_groups(text, attributes)
            if groups is None:
                return MissingPlayers(NO_TEMPLATE)
            groups_of.append(groups)
        return groups_of


def relation_groups(text: str, relation: str) -> WordGroups | None:
    """Word groups of “the X is REL the Y”; None for any other caption."""
    match = re.fullmatch(rf"the (?P<x>.+) is (?P<r>{re.escape(relation)}) the (?P<y>.+)", text)
    if match is None:
        return None
    return {"O": (match.span("x"), match.span("y")), "R": (match.span("r"),)}


@dataclass(frozen=True, slots=True)
class ReleasedWords:
    """Word groups as in the authors' released script, for captions with a tag `relation`.

    R is the relation with the word before it; O is everything else, articles included, so that
    only the start and the end token are background.

    Attributes:
        model: examples with a caption that has the relation's first token twice are left out, by
            the tokens of this model; None leaves none out.
    """

    model: Model | None = None
    name: str = "the captions' relations (as released)"
    joint: bool = True

    def find(self, examples: Sequence[Example]) -> list[Sequence[WordGroups] | MissingPlayers]:
        """Word groups of each caption."""
        return [self._one(example) for example in examples]

    def _one(self, example: Example) -> Sequence[WordGroups] | MissingPlayers:
        relation = example.tags.get("relation")
        if not isinstance(relation, str) or not relation.strip():
            return MissingPlayers(NO_RELATION)
        groups_of: list[WordGroups] = []
        for text in example.texts:
            match = re.search(rf"(?<!\w){re.escape(relation)}(?!\w)", text, re.IGNORECASE)
            if match is None:
                return MissingPlayers(NO_RELATION)
            if self.model is not None and self._repeats_token(self.model, text, match.start()):
                return MissingPlayers(REPEATED_RELATION)
            groups_of.append(released_groups(text, match.span()))
        return groups_of

    def _repeats_token(self, model: Model, text: str, start: int) -> bool:
        """Whether the token at the start of the relation comes twice in a caption."""
        before = text[:start].rstrip()
        if not isinstance(model, CaptionTokenizer):
            words = split_words(text)
            return words.count(words[len(split_words(before))]) > 1
        (ids,) = model.token_ids([text])
        position = len(model.token_ids([before])[0]) if before else 0
        return list(ids).count(ids[min(position, len(ids) - 1)]) > 1


def released_groups(text: str, relation: Span) -> WordGroups:
    """Word groups of the authors' script: R with the word before it, and O all the rest."""
    last_word = re.search(r"\S+\s*$", text[: relation[0]])
    start = relation[0] if last_word is None else last_word.start()
    rest = [match.span() for match in re.finditer(r"\S+", text)]
    objects = tuple(span for span in rest if span[1] <= start or span[0] >= relation[1])
    return (
        {"O": objects, "R": ((start, relation[1]),)} if objects else {"R": ((start, relation[1]),)}
    )


def attribute_groups(text: str, attributes: str) -> WordGroups | None:
    """Word groups of “the A1 X and the A2 Y”; None for any other caption.

    Args:
        text: the caption.
        attributes: both attributes, joined by `_`, in any order.
    """
    match = re.fullmatch(r"the (.+) and the (.+)", text)
    if match is None:
        return None
    objects: list[Span] = []
    adjectives: list[Span] = []
    for group in (1, 2):
        phrase, start = match.group(group), match.start(group)
        known = [word for word in attributes.split("_") if phrase.startswith(f"{word} ")]
        length = len(max(known, key=len)) if known else phrase.find(" ")
        if length < 1:
            return None
        adjectives.append((start, start + length))
        objects.append((start + length + 1, match.end(group)))
    return {"O": tuple(objects), "A": tuple(adjectives)}


@dataclass(frozen=True, slots=True)
class UserWords:
    """Word groups from a user's file.

    Attributes:
        file: the file.
        groups: word groups by example and caption, with the line of the file.
    """

    file: Path
    groups: Mapping[FileKey, tuple[WordGroups, int]] = field(repr=False)
    joint: bool = True

    @property
    def name(self) -> str:
        """Description with the file's name."""
        return f"the spans of {self.file.name}"

    @classmethod
    def read(cls, file: Path) -> UserWords:
        """Read a JSONL file of spans.

        Raises:
            InputError: a record is malformed, or has no group, an empty one, or too many.
        """
        known = read_players(file, _parse_word_record, "caption", "word groups")
        return cls(file, known)

    def find(self, examples: Sequence[Example]) -> list[Sequence[WordGroups] | MissingPlayers]:
        """Word groups of each caption, checked against its text.

        Raises:
            InputError: a span lies outside its caption, or two groups overlap.
        """
        return [self._one(example) for example in examples]

    def _one(self, example: Example) -> Sequence[WordGroups] | MissingPlayers:
        groups_of = []
        for index, text in enumerate(example.texts):
            known = self.groups.get((example.id, index))
            if known is None:
                return MissingPlayers(f"{self.file.name} has no word groups of one of its captions")
            groups, line = known
            try:
                _check_overlap(groups, text)
            except InputError as error:
                raise InputError(error.message, file=self.file, line=line) from None
            groups_of.append(groups)
        return groups_of


def _parse_word_record(record: Record) -> tuple[FileKey, WordGroups]:
    spans = named_players(record, "spans", "group of words", "groups of words")
    groups = {str(name): _parse_spans(record, str(name), value) for name, value in spans.items()}
    return (record.name("id"), record.integer("caption")), groups


def _parse_spans(record: Record, name: str, value: Any) -> tuple[Span, ...]:
    if not isinstance(value, list) or not value:
        raise MalformedError(f"record {record.key}: the group {name!r} is empty; leave it out.")
    for span in value:
        is_span = isinstance(span, list) and len(span) == 2 and all(type(n) is int for n in span)
        if not is_span:
            raise MalformedError(f"record {record.key}: a span of {name!r} must be [start, end].")
    return tuple((start, end) for start, end in value)


def _check_overlap(groups: WordGroups, text: str) -> None:
    taken: list[tuple[Span, str]] = []
    for name, spans in groups.items():
        taken += [(span, name) for span in merge_spans(spans, text)]
    taken.sort()
    for (one, name), (other, second) in pairwise(taken):
        if other[0] < one[1]:
            raise InputError(f"the groups {name!r} and {second!r} share words of {text[:40]!r}.")


PlayerKind = Literal["groups", "words", "superpixels"]


@dataclass(frozen=True, slots=True)
class SceneWords:
    """Word groups of the captions of `scenes`, from their grammar."""

    name: str = "the captions' grammar (scenes)"
    joint: bool = True

    def find(self, examples: Sequence[Example]) -> list[Sequence[WordGroups] | MissingPlayers]:
        """Word groups of each caption; shuffled captions are read word by word."""
        return [[scene_groups(text) for text in example.texts] for example in examples]


@dataclass(frozen=True, slots=True)
class TaggerWords:
    """Word groups from part-of-speech tags."""

    tagger: Tagger = "textblob"
    joint: bool = True

    @property
    def name(self) -> str:
        """Description with the tagger's name."""
        return f"parts of speech ({self.tagger})"

    def find(self, examples: Sequence[Example]) -> list[Sequence[WordGroups] | MissingPlayers]:
        """Nouns, verbs and prepositions, adjectives and numerals; words that differ by a diff."""
        return [
            group_by_changes(example, [group_words(text, self.tagger) for text in example.texts])
            for example in examples
        ]


@dataclass(frozen=True, slots=True)
class SingleWords:
    """Single-word players; a relation of several words is one, and repeated ones are numbered."""

    name: str = "every word by itself"
    joint: bool = False

    def find(self, examples: Sequence[Example]) -> list[Sequence[WordGroups] | MissingPlayers]:
        """Single words of each caption, punctuation left out."""
        return [[_single_words(text) for text in example.texts] for example in examples]


def _single_words(text: str) -> WordGroups:
    compounds = [match.span() for match in COMPOUND_RELATION.finditer(text)]
    words = [
        match.span()
        for match in WORD_PATTERN.finditer(text)
        if match.group()[0].isalnum()
        and not any(start <= match.start() < end for start, end in compounds)
    ]
    players: dict[str, tuple[Span, ...]] = {}
    counts: dict[str, int] = {}
    for start, end in sorted([*compounds, *words]):
        word = text[start:end]
        counts[word] = counts.get(word, 0) + 1
        players[word if counts[word] == 1 else f"{word}·{counts[word]}"] = ((start, end),)
    return players


@dataclass(frozen=True, slots=True)
class DefaultWords:
    """Default word groups: the caption's template, or the tagger where it follows none."""

    tagger: Tagger = "textblob"
    name: str = "the captions' templates, or parts of speech"
    joint: bool = True

    def find(self, examples: Sequence[Example]) -> list[Sequence[WordGroups] | MissingPlayers]:
        """Word groups of each caption."""
        return [self._choose_finder(example).find([example])[0] for example in examples]

    def ways(self, examples: Sequence[Example]) -> list[str]:
        """Descriptions of the sources that the examples' groups come from, each once."""
        return list(dict.fromkeys(self._choose_finder(example).name for example in examples))

    def _choose_finder(self, example: Example) -> WordFinder:
        if any(isinstance(ref.source, SceneImage) for ref in example.images) or any(
            parse_caption(text) is not None for text in example.texts
        ):
            return SceneWords()
        templates = TemplateWords()
        if not isinstance(templates.find([example])[0], MissingPlayers):
            return templates
        return TaggerWords(self.tagger)


def describe_source(words: WordFinder, examples: Sequence[Example]) -> str:
    """Description of where the word groups of these examples come from."""
    return "; ".join(words.ways(examples)) if isinstance(words, DefaultWords) else words.name


def choose_words(
    players: PlayerKind = "groups",
    *,
    spans: Path | None = None,
    tagger: Tagger = "textblob",
    preset: str | None = None,
) -> WordFinder:
    """Choose the source of word groups from the user's options.

    Args:
        players: `words` makes every word a player.
        spans: a file of the user's spans.
        tagger: part-of-speech tagger for captions that follow no template.
        preset: `released` follows the authors' script, which splits captions at their relation.

    Raises:
        InputError: there is no such preset, or the file cannot be used.
    """
    if preset not in (None, "released"):
        raise InputError(f"there is no preset {preset!r}; there is 'released'.")
    if preset is not None:
        if spans is not None or players == "words":
            raise InputError(f"{option('preset', preset)} has word groups of its own.")
        return ReleasedWords()
    if spans is not None:
        return UserWords.read(spans)
    return SingleWords() if players == "words" else DefaultWords(tagger)
