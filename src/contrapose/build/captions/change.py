"""Recorded caption changes: enough to make the new caption from the old one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from contrapose.build.captions.lexicon import article_for, is_article

NEXT_WORD = re.compile(r"\s*[\"'“‘(]*(\w[\w'’-]*)")
PIECES = re.compile(r"\w[\w'’-]*|\s+|[^\w\s]")
LAST_WORD = re.compile(r"(\w[\w'’-]*)[ \t]+$")


@dataclass(frozen=True, slots=True)
class Change:
    """Replaced character span of a caption: what stood there and what stands there now.

    Attributes:
        start: its first character.
        end: the character after its last.
        before: what stood there.
        after: what stands there now.
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
        kind: what sort of change it is, such as `replace-relation`.
        changes: what was changed, from left to right; a repaired article is a change too.
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
        kind: what sort of change it is.
        edits: first character, the one after the last, and the new words; none overlap.
        articles: let “a” and “an” before a changed word fit the new one.
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
    whole: list[Change] = []
    for change in changes:
        word = NEXT_WORD.match(change.after or caption[change.end :])
        found = LAST_WORD.search(caption, 0, change.start)
        if word and found and is_article(found[1]):
            start, end = found.span(1)
            right = match_case(found[1], article_for(word[1]))
            # A capital “A” alone is no word in capitals.
            right = right.capitalize() if found[1] == "A" else right
            if right != found[1] and not any(one.end > start for one in whole):
                whole.append(Change(start, end, found[1], right))
        whole.append(change)
    return whole
