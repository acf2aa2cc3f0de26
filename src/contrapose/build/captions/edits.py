"""Edits of captions: replaced spans, with case and articles made to fit, recorded as changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from contrapose.build.captions.lexicon import article_for, is_article

NEXT_WORD = re.compile(r"\s*[\"'“‘(]*(\w[\w'’-]*)")
PIECES = re.compile(r"\w[\w'’-]*|\s+|[^\w\s]")
WORD_MARKS = "'’-"


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
        after = words.upper() if caption.isupper() else match_case(before, words)
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


def fit_article(caption: str, article: str, word: str) -> str:
    """Indefinite article that goes before a word, in the case of the one it replaces.

    In a caption of capitals “MAN” is a word, not an abbreviation that is spelled out.
    """
    capitals = caption.isupper()
    right = article_for(word.lower() if capitals else word)
    if capitals:
        return right.upper()
    return right.capitalize() if article[0].isupper() else right


def _repair_articles(caption: str, changes: Sequence[Change]) -> list[Change]:
    """Add changes that repair the articles before changed words."""
    repaired: list[Change] = []
    for change in changes:
        word = NEXT_WORD.match(change.after or caption[change.end :])
        start, end = _find_word_before(caption, change.start)
        before = caption[start:end]
        if word and is_article(before):
            right = fit_article(caption, before, word[1])
            if right != before and not any(one.end > start for one in repaired):
                repaired.append(Change(start, end, before, right))
        repaired.append(change)
    return repaired


def _find_word_before(caption: str, at: int) -> tuple[int, int]:
    """Span of the word before an offset, with blanks between them; empty where there is none.

    A search by a regular expression would start at every letter of a long word.
    """
    end = at
    while end and caption[end - 1] in " \t":
        end -= 1
    if end == at:
        return at, at
    start = first = end
    while start and (_is_letter(caption[start - 1]) or caption[start - 1] in WORD_MARKS):
        start -= 1
        first = start if _is_letter(caption[start]) else first
    return first, end


def _is_letter(sign: str) -> bool:
    """Whether a character is one of a word, as regular expressions mean it."""
    return sign.isalnum() or sign == "_"
