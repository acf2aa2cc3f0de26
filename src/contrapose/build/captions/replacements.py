"""Hard positives REPLACE: the table of synonyms, its conditions, and the captions it gives.

There are two styles. `published` has only the pairs of the benchmark REPLACE and applies them
everywhere, as its authors did: “within front of” is in their files. `safe` has ours too, and
applies them only where the meaning stays: “in” becomes “within” before a room, “wearing” before a
coat.

Conditions of an entry, under `only` (all must hold) and `unless` (none may):

| condition | holds when |
|---|---|
| `object` | a noun phrase follows, its head of one of these classes; any, where none is named |
| `attributive` | a noun follows, at once or after other modifiers |
| `intransitive` | no object follows |
| `next`, `previous` | one of these words stands beside it |
| `after` | the word before has one of these tags |
| `earlier`, `later` | one of these words comes before it, or after it, anywhere |
| `joined` | a word with one of these tags comes later, after “and” |
| `head` | the noun of its noun phrase is of one of these classes |
| `subject` | the noun before it, clothes aside, is of one of these classes |
| `head_word` | a noun phrase follows, its head one of these words, in the singular |

A noun is replaced only where it is the head of its noun phrase and no part of a compound, and where
the caption does not have the new word already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from contrapose.build.captions.edits import Rewrite, diff_captions, edit_caption
from contrapose.build.captions.lexicon import (
    VERB_FORMS,
    load_lexicon,
    load_table,
    pluralize,
    singularize,
    verb_forms,
)
from contrapose.build.captions.sentence import (
    OBJECT_STARTS,
    Sentence,
    parse_sentence,
    words_match,
)

Style = Literal["safe", "published"]
Role = Literal["relation", "attribute", "object"]
Condition = Callable[[Sentence, int, int, Any], bool]


@dataclass(frozen=True, slots=True)
class ReplacementRule:
    """Replacement rule: words, their synonym, and the conditions under which it applies.

    Attributes:
        words: the replaced words, in lower case.
        to: the replacement.
        optional: last word of the replacement, left out where a preposition follows.
        kind: a relation, an attribute or an object.
        group: its class: spatial, action, colour, size, state, shape, or a synonym of WordNet.
        published: whether it comes from the benchmark.
        safe: whether it keeps the meaning in the places that the conditions name.
        only: conditions that must hold.
        unless: conditions that must not hold.
        noun: whether the words are a noun, the head of its noun phrase.
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
    noun: bool = False


@dataclass(frozen=True, slots=True)
class Substitution:
    """Token range and the replacement that a rule gives there.

    Attributes:
        first: its first word.
        end: the word after its last.
        entry: the table's entry.
        to: the new words.
    """

    first: int
    end: int
    entry: ReplacementRule
    to: str


def find_substitutions(sentence: Sentence, style: Style = "safe") -> Iterator[Substitution]:
    """Find all token ranges that a rule matches, from left to right.

    A word that is part of a longer entry does not match, nor, in the safe style, a blocked one such
    as the “in” of “in front of”.
    """
    entries, longest = _rules_by_first_word(style)
    at = 0
    while at < len(sentence.tokens):
        known = entries.get(sentence.tokens[at].low, ())
        length = 1
        for words, candidates in known:
            if words_match(sentence.tokens, at, words):
                length = len(words)
                for entry in candidates:
                    if style == "published" or _conditions_hold(sentence, at, at + length, entry):
                        to = _replacement_words(sentence, at + length, entry)
                        yield Substitution(at, at + length, entry, to)
                break
        at += min(length, longest)


@cache
def load_rules() -> tuple[ReplacementRule, ...]:
    """Load the replacement rules, a verb in each of its forms."""
    return tuple(
        entry
        for table in ("replacements.json", "wordnet.json")
        for value in load_table(table)["entries"]
        for entry in _parse_rule(value)
    )


@cache
def synonym_pairs() -> frozenset[tuple[str, str]]:
    """Pairs of words that some rule replaces by each other."""
    pairs = {(" ".join(entry.words), entry.to) for entry in load_rules()}
    return frozenset(pairs | {(to, word) for word, to in pairs})


def _parse_rule(value: Mapping[str, Any]) -> Iterator[ReplacementRule]:
    to, _, optional = value["to"].partition(" (")
    common = {
        "optional": optional.rstrip(")"), "kind": value["kind"], "group": value["class"],
        "published": bool(value.get("published")), "safe": value.get("safe", True),
        "only": value.get("only", {}), "unless": value.get("unless", {}),
    }  # fmt: skip
    if "phrase" in value:
        yield ReplacementRule(words=tuple(value["phrase"].split()), to=to, **common)
        return
    if "noun" in value:
        one, many = value["noun"], pluralize(value["noun"])
        pairs = {one: to, many: to if to.endswith("s") else pluralize(to)}
        for old, new in pairs.items():
            yield ReplacementRule(words=tuple(old.split()), to=new, noun=True, **common)
        return
    seen = set()
    new = verb_forms(to)
    for form in VERB_FORMS:
        old = verb_forms(value["verb"])[form]
        if old not in seen:
            seen.add(old)
            yield ReplacementRule(words=(old,), to=new[form], **common)


@cache
def _rules_by_first_word(
    style: Style,
) -> tuple[Mapping[str, Sequence[tuple[tuple[str, ...], tuple[ReplacementRule, ...]]]], int]:
    """Rules by first word, the longest first; and the length of the longest of all."""
    blocked = load_table("replacements.json")["blocked"] if style == "safe" else ()
    grouped: dict[tuple[str, ...], list[ReplacementRule]] = {
        tuple(words.split()): [] for words in blocked
    }
    for entry in load_rules():
        if entry.published if style == "published" else entry.safe:
            grouped.setdefault(entry.words, []).append(entry)
    by_first: dict[str, list[tuple[tuple[str, ...], tuple[ReplacementRule, ...]]]] = {}
    for words in sorted(grouped, key=lambda words: (-len(words), words)):
        by_first.setdefault(words[0], []).append((words, tuple(grouped[words])))
    return by_first, max(map(len, grouped))


def _replacement_words(sentence: Sentence, end: int, entry: ReplacementRule) -> str:
    if not entry.optional or sentence.at(end).tag in ("IN", "TO", "RP", "RB"):
        return entry.to
    return f"{entry.to} {entry.optional}"


def _conditions_hold(sentence: Sentence, first: int, end: int, entry: ReplacementRule) -> bool:
    if entry.noun and not _is_lone_noun(sentence, first, end, entry.to):
        return False
    return all(
        CONDITIONS[name](sentence, first, end, want) for name, want in entry.only.items()
    ) and (
        not any(CONDITIONS[name](sentence, first, end, want) for name, want in entry.unless.items())
    )


def _is_lone_noun(sentence: Sentence, first: int, end: int, to: str) -> bool:
    """Whether a noun makes up the nouns of its phrase, and the caption lacks the new one."""
    phrase = sentence.phrase_of(first)
    if (
        phrase is None
        or (phrase.nouns, phrase.end) != (first, end)
        or sentence.at(end).low in ("'", "’")
    ):
        return False
    if first and sentence.tokens[first].text[0].isupper() and not sentence.caption.isupper():
        return False  # a name
    taken = {singularize(token.low) for token in sentence.tokens}
    drawn = sentence.at(end).tag == "VBN" and sentence.at(end + 1).is_noun  # “a horse drawn cart”
    return not drawn and singularize(to.lower().split()[-1]) not in taken - {
        singularize(token.low) for token in sentence.tokens[first:end]
    }


def _has_object(sentence: Sentence, _: int, end: int, classes: Sequence[str]) -> bool:
    head = sentence.object_head(end)
    named = head is not None and head.text[0].isupper() and not sentence.caption.isupper()
    return (
        head is not None
        and not named
        and (not classes or bool(load_lexicon().classes(head.low) & set(classes)))
    )


def _is_intransitive(sentence: Sentence, first: int, end: int, _: Any) -> bool:
    return sentence.attributive(first) or not sentence.at(end).tag.startswith(OBJECT_STARTS)


def _has_head(sentence: Sentence, first: int, _: int, classes: Sequence[str]) -> bool:
    phrase = sentence.phrase_of(first)
    head = None if phrase is None else sentence.tokens[phrase.head].low
    return head is not None and bool(load_lexicon().classes(head) & set(classes))


CONDITIONS: Mapping[str, Condition] = {
    "object": _has_object,
    "attributive": lambda sentence, first, _, __: sentence.attributive(first),
    "intransitive": _is_intransitive,
    "next": lambda sentence, _, end, words: sentence.at(end).low in words,
    "previous": lambda sentence, first, _, words: sentence.at(first - 1).low in words,
    "after": lambda sentence, first, _, tags: sentence.at(first - 1).tag in tags,
    "earlier": lambda sentence, first, _, words: any(
        token.low in words for token in sentence.tokens[:first]
    ),
    "later": lambda sentence, _, end, words: any(
        token.low in words for token in sentence.tokens[end:]
    ),
    "joined": lambda sentence, _, end, tags: any(
        token.low == "and" and sentence.at(i + 1).tag in tags
        for i, token in enumerate(sentence.tokens)
        if i >= end
    ),
    "head": _has_head,
    "subject": lambda sentence, first, _, classes: (
        (head := sentence.subject_head(first)) is not None
        and bool(load_lexicon().classes(head.low) & set(classes))
    ),
    "head_word": lambda sentence, _, end, words: (
        (head := sentence.object_head(end)) is not None and singularize(head.low) in words
    ),
}


def replacements(
    sentence: Sentence,
    style: Style = "safe",
    *,
    articles: bool = True,
    role: Role | None = None,
) -> Iterator[Rewrite]:
    """All hard positives that the rules give of a caption, each with one replacement.

    Args:
        sentence: the caption.
        style: `safe` with conditions, or as `published`.
        articles: adapt articles; the published captions have “a ivory boat”.
        role: only relations, or only attributes.
    """
    for match in find_substitutions(sentence, style):
        if role is None or match.entry.kind == role:
            yield _substitute(sentence, match, articles)


def replacement_for_negative(
    caption: str,
    negative: str,
    style: Style = "published",
    *,
    articles: bool = True,
    role: Role | None = None,
) -> Rewrite | None:
    """Hard positive that changes the words that a hard negative changes.

    Where several of the changed words match a rule, or none, the first match is taken.

    Returns:
        None where no rule matches the caption.
    """
    sentence = parse_sentence(caption)
    spans = diff_captions(caption, negative, "").changes
    known = [
        match
        for match in find_substitutions(sentence, style)
        if role is None or match.entry.kind == role
    ]
    for match in known:
        start, end = sentence.span(match.first, match.end)
        if any(start < span.end and end > span.start for span in spans):
            return _substitute(sentence, match, articles)
    return _substitute(sentence, known[0], articles) if known else None


def _substitute(sentence: Sentence, match: Substitution, articles: bool) -> Rewrite:
    start, end = sentence.span(match.first, match.end)
    kind = f"replace-{match.entry.kind}"
    return edit_caption(sentence.caption, kind, [(start, end, match.to)], articles=articles)
