"""Parsed captions: tokens with offsets and part-of-speech tags, and noun phrases.

The tagger ignores context, so its most frequent mistakes on captions are corrected here: attributes
before a noun, verbs after one, and relations of several words (“in front of”), which contain no
noun phrase. Changes of a caption are recorded, so that the new one can be made from the old one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from contrapose.build.captions.lexicon import (
    article_for,
    is_article,
    load_lexicon,
    relation_phrases,
)
from contrapose.data.tagging import WORD_PATTERN, Tagger, tag_words

DETERMINERS = frozenset(("DT", "PDT", "PRP$"))
MODIFIERS = frozenset(("JJ", "JJR", "JJS", "CD", "VBN"))
BE_FORMS = frozenset(("is", "are", "was", "were"))
PHRASE_PREDECESSORS = frozenset(
    ("", "DT", "IN", "TO", "PRP$", "CD", "JJ", "CC", "VBZ", "VBP", "VBD")
)
"""Tags that may precede a noun phrase."""
OBJECT_STARTS = (*DETERMINERS, "CD", "JJ", "NN", "VBN")


@dataclass(frozen=True, slots=True)
class Token:
    """Token of a caption, with its offsets and part-of-speech tag.

    Attributes:
        text: as it stands.
        low: in lower case.
        start: its first character in the caption.
        end: the character after its last.
        tag: its part of speech, of the Penn Treebank.
    """

    text: str
    low: str
    start: int
    end: int
    tag: str

    @property
    def is_noun(self) -> bool:
        """Whether it is a noun, common or proper."""
        return self.tag.startswith("NN")

    @property
    def is_verb(self) -> bool:
        """Whether it is a verb in any form."""
        return self.tag.startswith("VB")


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """Noun phrase, as token indices.

    Attributes:
        first: its first word.
        end: the word after its last.
        nouns: index of its first noun; the head is the last one.
        modifiers: indices of its adjectives and numbers.
        determined: whether it begins with a determiner or a number.
    """

    first: int
    end: int
    nouns: int
    modifiers: tuple[int, ...]
    determined: bool

    @property
    def head(self) -> int:
        """Index of the head noun."""
        return self.end - 1


@dataclass(frozen=True, slots=True)
class Sentence:
    """Parsed caption: tokens and noun phrases.

    Attributes:
        caption: its text.
        tokens: its words and punctuation marks.
        phrases: its noun phrases, from left to right.
    """

    caption: str
    tokens: tuple[Token, ...]
    phrases: tuple[NounPhrase, ...]

    def at(self, index: int) -> Token:
        """Token at an index; an empty one beyond either end."""
        if 0 <= index < len(self.tokens):
            return self.tokens[index]
        return Token("", "", len(self.caption), len(self.caption), "")

    def span(self, first: int, end: int) -> tuple[int, int]:
        """Character offsets of a token range."""
        return self.tokens[first].start, self.tokens[end - 1].end

    def text(self, first: int, end: int) -> str:
        """Text of a token range."""
        start, stop = self.span(first, end)
        return self.caption[start:stop]

    def lower(self, first: int, end: int) -> tuple[str, ...]:
        """Words of a token range in lower case."""
        return tuple(token.low for token in self.tokens[first:end])

    def phrase_from(self, index: int) -> NounPhrase | None:
        """Noun phrase that starts at an index."""
        return next((phrase for phrase in self.phrases if phrase.first == index), None)

    def phrase_to(self, index: int) -> NounPhrase | None:
        """Noun phrase that ends just before an index."""
        return next((phrase for phrase in self.phrases if phrase.end == index), None)

    def phrase_of(self, index: int) -> NounPhrase | None:
        """Noun phrase that contains a token."""
        return next((one for one in self.phrases if one.first <= index < one.end), None)

    def attributive(self, index: int) -> bool:
        """Whether a noun follows, at once or after other modifiers."""
        phrase = self.phrase_of(index)
        if phrase is not None:
            return index < phrase.nouns
        following = self.phrase_from(index + 1)
        starts = self.at(index - 1).tag in PHRASE_PREDECESSORS
        return following is not None and not following.determined and starts

    def object_head(self, end: int) -> Token | None:
        """Head of the noun phrase that starts at an index."""
        phrase = self.phrase_from(end)
        return None if phrase is None else self.tokens[phrase.head]


def parse_sentence(caption: str, tagger: Tagger = "textblob") -> Sentence:
    """Parse a caption into tokens and noun phrases.

    Raises:
        MissingExtraError: the tagger's package is not installed.
    """
    # The tagger takes a capital for a name, which the first word of a caption seldom is.
    matches = list(WORD_PATTERN.finditer(caption))
    tags = [penn for _, penn in tag_words(caption.lower(), tagger)]
    if len(tags) != len(matches):  # a character whose lower case is longer
        tags = [penn for _, penn in tag_words(caption, tagger)]
    tokens = [
        Token(match[0], match[0].lower(), match.start(), match.end(), penn)
        for match, penn in zip(matches, tags, strict=True)
    ]
    tokens = _correct_tags(tokens)
    return Sentence(caption, tuple(tokens), tuple(_find_phrases(tokens)))


def words_match(tokens: Sequence[Token], at: int, words: Sequence[str]) -> bool:
    """Whether these words stand at an index."""
    return len(tokens) >= at + len(words) and all(
        tokens[at + i].low == word for i, word in enumerate(words)
    )


def _correct_tags(tokens: list[Token]) -> list[Token]:
    words = load_lexicon()
    known = list(tokens)
    for i, token in enumerate(tokens):
        before = known[i - 1] if i else None
        after = tokens[i + 1] if i + 1 < len(tokens) else None
        penn = token.tag
        if token.low.endswith(("'s", "’s")):
            penn = "PRP$"
        elif words.is_attribute(token.low) and after is not None and _is_nominal(after):
            penn = "JJ"
        elif token.low in words.nouns and not token.is_noun and not _is_nominal(after):
            penn = "NNS" if token.low.endswith("s") else "NN"
        elif before is not None and before.is_noun and _is_finite(token, after):
            penn = "VBZ"
        known[i] = replace(token, tag=penn)
    for i, token in enumerate(tokens):
        for phrase in relation_phrases().get(token.low, ()):
            if words_match(known, i, phrase):
                span = slice(i, i + len(phrase))
                known[span] = [replace(one, tag="IN") for one in known[span]]
    return known


def _is_nominal(token: Token | None) -> bool:
    if token is None:
        return False
    return token.is_noun or token.tag == "JJ" or load_lexicon().is_attribute(token.low)


def _is_finite(token: Token, after: Token | None) -> bool:
    """Whether a word tagged as a plural is a verb in -s: no noun follows it."""
    if token.tag != "NNS" or after is None:
        return False
    form = load_lexicon().verbs.get(token.low)
    if form is not None and form[1] == "s":
        return not after.is_noun or after.low in load_lexicon().nouns
    return after.tag in ("DT", "PRP$")


def _find_phrases(tokens: Sequence[Token]) -> Iterator[NounPhrase]:
    i = 0
    while i < len(tokens):
        first = i
        while i < len(tokens) and tokens[i].tag in DETERMINERS:
            i += 1
        modifiers: list[int] = []
        while i < len(tokens) and (
            _is_modifier(tokens, i) or (modifiers and _is_joining_and(tokens, i))
        ):
            if tokens[i].low != "and":
                modifiers.append(i)
            i += 1
        nouns = i
        while i < len(tokens) and tokens[i].is_noun:
            i += 1
        if i == nouns:
            i = max(first + 1, i)
            continue
        determined = tokens[first].tag in (*DETERMINERS, "CD")
        yield NounPhrase(first, i, nouns, tuple(modifiers), determined)


def _is_joining_and(tokens: Sequence[Token], at: int) -> bool:
    """Whether a token is the “and” of “a red and white bus”."""
    both = tokens[at].low == "and" and tokens[at - 1].tag == "JJ" and at + 2 < len(tokens)
    return both and tokens[at + 1].tag == "JJ" and _is_nominal(tokens[at + 2])


def _is_modifier(tokens: Sequence[Token], at: int) -> bool:
    token = tokens[at]
    if token.tag == "VBN":  # “parked cars”, not “a car parked near a tree”
        before = tokens[at - 1].tag if at else ""
        after = tokens[at + 1] if at + 1 < len(tokens) else None
        return before in ("", "DT", "JJ", "IN", "PRP$") and _is_nominal(after)
    return token.tag in MODIFIERS


NEXT_WORD = re.compile(r"\s*[\"'“‘(]*(\w[\w'’-]*)")
PIECES = re.compile(r"\w[\w'’-]*|\s+|[^\w\s]")
LAST_WORD = re.compile(r"(\w[\w'’-]*)[ \t]+$")


@dataclass(frozen=True, slots=True)
class Change:
    """Replaced character span of a caption, with its old and new text.

    Attributes:
        start: offset of its first character.
        end: offset after its last.
        before: the replaced text.
        after: the new text.
    """

    start: int
    end: int
    before: str
    after: str

    def as_json(self) -> dict[str, object]:
        """JSON record of the change."""
        return {"span": [self.start, self.end], "from": self.before, "to": self.after}


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A caption made from another.

    Attributes:
        text: the new caption.
        kind: kind of change, such as `replace-relation`.
        changes: the changes, from left to right; a repaired article is a change too.
    """

    text: str
    kind: str
    changes: tuple[Change, ...]


def edit_caption(
    caption: str, kind: str, edits: Iterable[tuple[int, int, str]], *, articles: bool = True
) -> Rewrite:
    """Replace character spans of a caption, with case and articles made to fit.

    Args:
        caption: the caption.
        kind: kind of change.
        edits: start, end and new words of each replaced span; none overlap.
        articles: adapt “a” and “an” before a changed word to the new one.
    """
    changes: list[Change] = []
    for start, end, words in sorted(edits):
        before = caption[start:end]
        after = match_case(before, words)
        if before != after:
            changes.append(Change(start, end, before, after))
    if articles:
        changes = _repair_articles(caption, changes)
    return Rewrite(apply_changes(caption, changes), kind, tuple(changes))


def apply_changes(caption: str, changes: Sequence[Change]) -> str:
    """Apply changes to a caption."""
    parts: list[str] = []
    at = 0
    for change in changes:
        parts += [caption[at : change.start], change.after]
        at = change.end
    return "".join([*parts, caption[at:]])


def diff_captions(caption: str, text: str, kind: str) -> Rewrite:
    """Rewrite whose change is the shortest word span in which two captions differ."""
    if caption == text:
        return Rewrite(text, kind, ())
    old, new = PIECES.findall(caption), PIECES.findall(text)
    most = min(len(old), len(new))
    first = next((i for i in range(most) if old[i] != new[i]), most)
    last = next((i for i in range(most - first) if old[-1 - i] != new[-1 - i]), most - first)
    before, after = old[first : len(old) - last], new[first : len(new) - last]
    start = len("".join(old[:first]))
    words = "".join(before)
    return Rewrite(text, kind, (Change(start, start + len(words), words, "".join(after)),))


def match_case(before: str, words: str) -> str:
    """New words in the case of the old: WITHIN for IN, Ivory for White."""
    if not before or not words:
        return words
    if len(before) > 1 and before.isupper():
        return words.upper()
    if before[0].isupper() and words[0].islower():
        return words[0].upper() + words[1:]
    return words


def _repair_articles(caption: str, changes: Sequence[Change]) -> list[Change]:
    """Add changes that repair the articles before changed words."""
    repaired: list[Change] = []
    for change in changes:
        word = NEXT_WORD.match(change.after or caption[change.end :])
        before = LAST_WORD.search(caption, 0, change.start)
        if word and before and is_article(before[1]):
            start, end = before.span(1)
            right = match_case(before[1], article_for(word[1]))
            # A capital “A” alone is not a word in capitals.
            right = right.capitalize() if before[1] == "A" else right
            if right != before[1] and not any(one.end > start for one in repaired):
                repaired.append(Change(start, end, before[1], right))
        repaired.append(change)
    return repaired
