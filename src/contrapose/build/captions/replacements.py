"""The table of words that may stand for each other, and where they may.

Two ways to read it. `published` has the pairs of the benchmark REPLACE alone and takes each
wherever it stands, as its authors did: “within front of” is in their files. `safe` has ours too,
and keeps to places where the meaning stays: “in” becomes “within” before a room, “wearing” before a
coat.

Conditions of an entry, under `only` (all must hold) and `unless` (none may):

| condition | holds when |
|---|---|
| `object` | a noun phrase follows, its head of one of these classes; any, where none is named |
| `attributive` | a noun follows, at once or after other modifiers |
| `intransitive` | no object follows |
| `next`, `previous` | one of these words stands beside it |
| `after` | the word before has one of these tags |
| `later` | one of these words comes after it, anywhere |
| `head` | the noun of its noun phrase is of one of these classes |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from contrapose.build.captions.inflection import VERB_FORMS, verb_forms
from contrapose.build.captions.lexicon import lexicon
from contrapose.build.captions.sentence import OBJECT_STARTS, Sentence, matches
from contrapose.build.captions.tables import table

Style = Literal["safe", "published"]
Role = Literal["relation", "attribute"]
Test = Callable[[Sentence, int, int, Any], bool]


@dataclass(frozen=True, slots=True)
class Entry:
    """One way to say something else that means the same.

    Attributes:
        words: what is replaced, in lower case.
        to: what takes its place.
        optional: a last word that is left out where a preposition follows.
        kind: a relation or an attribute.
        group: its class there: spatial, action, colour, size, state, shape.
        published: whether it comes from the benchmark.
        safe: whether it keeps the meaning in the places that the conditions name.
        only: what must hold.
        unless: what must not.
    """

    words: tuple[str, ...]
    to: str
    optional: str
    kind: Role
    group: str
    published: bool
    safe: bool
    only: Mapping[str, Any]
    unless: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of words and what may stand there instead.

    Attributes:
        first: its first word.
        end: the word after its last.
        entry: the table's entry.
        to: the new words.
    """

    first: int
    end: int
    entry: Entry
    to: str


def places(sentence: Sentence, style: Style = "safe") -> Iterator[Place]:
    """All places of a caption that the table knows, from left to right.

    A word that is part of a longer one of the table is no place; nor is, in the safe way, one of
    those that must not be touched, such as the “in” of “in front of”.
    """
    entries, longest = _by_first_word(style)
    at = 0
    while at < len(sentence.tokens):
        known = entries.get(sentence.tokens[at].low, ())
        length = 1
        for words, candidates in known:
            if matches(sentence.tokens, at, words):
                length = len(words)
                for entry in candidates:
                    if style == "published" or _fits(sentence, at, at + length, entry):
                        to = _worded(sentence, at + length, entry)
                        yield Place(at, at + length, entry, to)
                break
        at += min(length, longest)


@cache
def entries() -> tuple[Entry, ...]:
    """The table, a verb in each of its forms."""
    return tuple(entry for value in table("replacements.json")["entries"] for entry in _read(value))


@cache
def synonyms() -> frozenset[tuple[str, str]]:
    """Pairs of single words that may stand for each other somewhere."""
    pairs = {(" ".join(entry.words), entry.to) for entry in entries()}
    return frozenset(pairs | {(to, word) for word, to in pairs})


def _read(value: Mapping[str, Any]) -> Iterator[Entry]:
    to, _, optional = value["to"].partition(" (")
    common = {
        "optional": optional.rstrip(")"), "kind": value["kind"], "group": value["class"],
        "published": bool(value.get("published")), "safe": value.get("safe", True),
        "only": value.get("only", {}), "unless": value.get("unless", {}),
    }  # fmt: skip
    if "phrase" in value:
        yield Entry(words=tuple(value["phrase"].split()), to=to, **common)
        return
    seen = set()
    new = verb_forms(to)
    for form in VERB_FORMS:
        old = verb_forms(value["verb"])[form]
        if old not in seen:
            seen.add(old)
            yield Entry(words=(old,), to=new[form], **common)


@cache
def _by_first_word(
    style: Style,
) -> tuple[Mapping[str, Sequence[tuple[tuple[str, ...], tuple[Entry, ...]]]], int]:
    """Of each first word its phrases, the longest first; and the length of the longest of all."""
    blocked = table("replacements.json")["blocked"] if style == "safe" else ()
    grouped: dict[tuple[str, ...], list[Entry]] = {tuple(words.split()): [] for words in blocked}
    for entry in entries():
        if entry.published if style == "published" else entry.safe:
            grouped.setdefault(entry.words, []).append(entry)
    found: dict[str, list[tuple[tuple[str, ...], tuple[Entry, ...]]]] = {}
    for words in sorted(grouped, key=lambda words: (-len(words), words)):
        found.setdefault(words[0], []).append((words, tuple(grouped[words])))
    return found, max(map(len, grouped))


def _worded(sentence: Sentence, end: int, entry: Entry) -> str:
    if not entry.optional or sentence.at(end).tag in ("IN", "TO", "RP", "RB"):
        return entry.to
    return f"{entry.to} {entry.optional}"


def _fits(sentence: Sentence, first: int, end: int, entry: Entry) -> bool:
    return all(TESTS[name](sentence, first, end, want) for name, want in entry.only.items()) and (
        not any(TESTS[name](sentence, first, end, want) for name, want in entry.unless.items())
    )


def _object(sentence: Sentence, _: int, end: int, classes: Sequence[str]) -> bool:
    head = sentence.object_head(end)
    return head is not None and (not classes or bool(lexicon().classes(head.low) & set(classes)))


def _intransitive(sentence: Sentence, first: int, end: int, _: Any) -> bool:
    return sentence.attributive(first) or not sentence.at(end).tag.startswith(OBJECT_STARTS)


def _head(sentence: Sentence, first: int, _: int, classes: Sequence[str]) -> bool:
    phrase = sentence.phrase_of(first)
    head = None if phrase is None else sentence.tokens[phrase.head].low
    return head is not None and bool(lexicon().classes(head) & set(classes))


TESTS: Mapping[str, Test] = {
    "object": _object,
    "attributive": lambda sentence, first, _, __: sentence.attributive(first),
    "intransitive": _intransitive,
    "next": lambda sentence, _, end, words: sentence.at(end).low in words,
    "previous": lambda sentence, first, _, words: sentence.at(first - 1).low in words,
    "after": lambda sentence, first, _, tags: sentence.at(first - 1).tag in tags,
    "later": lambda sentence, _, end, words: any(
        token.low in words for token in sentence.tokens[end:]
    ),
    "head": _head,
}
