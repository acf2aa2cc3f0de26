"""Groups of the words that differ between captions, found by a diff of the captions.

A tagger groups the words of each caption by itself, and may put “white” into A and “spotted”, which
takes its place in the other caption, into R. The pair says more:

- a word that both captions have, in its place or moved, has one group: that of the right caption;
- words that differ belong to the group that changed. That is the group which the benchmark names
  (the tag `subset` is `replace_att`, say); else A for words added between an article and an object
  word (“a spotted cat”); else the only group among them; else, where one group stands against
  another, that of the right caption;
- words that differ and have no group (an added “not”, a changed article) belong to the group of the
  next word that has one: no difference stays in the background. Punctuation does.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from difflib import SequenceMatcher

from contrapose.data import Example
from contrapose.data.tagging import A, GroupedWord, O, R, collect_groups
from contrapose.diagnose.players import WordGroups

GROUP_PREFIXES = {"att": A, "rel": R, "obj": O}
"""Beginnings of the words by which benchmarks name the group that changed."""


def named_group(example: Example) -> str | None:
    """Group that changes by the benchmark's own words; None where it names none, or a swap."""
    words = re.findall(r"[a-z]+", str(example.tags.get("subset", "")).lower())
    named = {GROUP_PREFIXES[word[:3]] for word in words if word[:3] in GROUP_PREFIXES}
    return named.pop() if len(named) == 1 and "swap" not in words else None


def group_by_changes(
    example: Example, words_of: Sequence[Sequence[GroupedWord]]
) -> list[WordGroups]:
    """Word groups of captions after a diff of each with the right one.

    Args:
        example: the example; its first right caption is the reference.
        words_of: the words of each caption with the tagger's groups.
    """
    captions = [_Caption(text, words) for text, words in zip(example.texts, words_of, strict=True)]
    right = next((j for row in example.match for j, ok in enumerate(row) if ok), 0)
    group = named_group(example)
    for j, caption in enumerate(captions):
        if j != right:
            _compare(captions[right], caption, group)
    return [collect_groups(zip(caption.groups, caption.spans, strict=True)) for caption in captions]


class _Caption:
    """Words of a caption in lower case, with their spans and groups."""

    def __init__(self, text: str, words: Sequence[GroupedWord]):
        self.groups = [group for group, _ in words]
        self.spans = [span for _, span in words]
        self.words = [text[start:end].lower() for start, end in self.spans]

    def groups_of(self, positions: Sequence[int]) -> set[str]:
        """Groups among some words."""
        return {group for i in positions if (group := self.groups[i]) is not None}


def _compare(right: _Caption, other: _Caption, named: str | None) -> None:
    """Set the groups of both captions by their diff."""
    matcher = SequenceMatcher(None, right.words, other.words, autojunk=False)
    segments: list[tuple[range, range]] = []
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal":
            other.groups[first:last] = right.groups[start:end]
        else:
            segments.append((range(start, end), range(first, last)))
    moved = _copy_moved(right, other, segments)
    for segment in segments:
        changed = [
            [i for i in positions if i not in done and caption.words[i][0].isalnum()]
            for caption, positions, done in zip((right, other), segment, moved, strict=True)
        ]
        group = named or _changed_group(right, other, changed)
        for caption, positions in zip((right, other), changed, strict=True):
            for i in reversed(positions):
                if group is not None:
                    caption.groups[i] = group
                elif caption.groups[i] is None:
                    caption.groups[i] = _neighbor_group(caption, i)


def _copy_moved(
    right: _Caption, other: _Caption, segments: Sequence[tuple[range, range]]
) -> tuple[set[int], set[int]]:
    """Copy the groups of words that only moved, in order; their positions in both captions."""
    waiting: dict[str, deque[int]] = {}
    for positions, _ in segments:
        for i in positions:
            waiting.setdefault(right.words[i], deque()).append(i)
    moved: tuple[set[int], set[int]] = (set(), set())
    for _, positions in segments:
        for j in positions:
            if queue := waiting.get(other.words[j]):
                i = queue.popleft()
                other.groups[j] = right.groups[i]
                moved[0].add(i)
                moved[1].add(j)
    return moved


def _changed_group(
    right: _Caption, other: _Caption, changed: Sequence[Sequence[int]]
) -> str | None:
    """The one group of words that differ; None where each keeps its own."""
    before, after = changed
    if (before and not after and _are_modifiers(right, before)) or (
        after and not before and _are_modifiers(other, after)
    ):
        return A
    first, second = right.groups_of(changed[0]), other.groups_of(changed[1])
    if len(first | second) == 1 or (len(first) == len(second) == 1):
        return next(iter(first or second))
    return None


def _are_modifiers(caption: _Caption, positions: Sequence[int]) -> bool:
    """Whether words stand right before an object word, after an article, an attribute or none."""
    before, after = positions[0] - 1, positions[-1] + 1
    return (
        list(positions) == list(range(positions[0], after))
        and all(caption.groups[i] is not None for i in positions)
        and after < len(caption.groups)
        and caption.groups[after] == O
        and (before < 0 or caption.groups[before] in (None, A))
    )


def _neighbor_group(caption: _Caption, position: int) -> str | None:
    """Group of the next word that has one; else of the last before it."""
    after = [group for group in caption.groups[position + 1 :] if group is not None]
    before = [group for group in caption.groups[:position] if group is not None]
    return after[0] if after else before[-1] if before else None
