"""Verification of rewritten captions: exactly one changed word, or the same words reordered.

The words are compared, and the new caption is the old one with the verified change, so that
punctuation and capitals stay as they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from contrapose.build.captions.edits import Rewrite, diff_captions, edit_caption, fit_article
from contrapose.build.captions.lexicon import (
    Sides,
    is_article,
    load_lexicon,
    load_table,
    side_index,
    singularize,
)
from contrapose.build.captions.replacements import synonym_pairs
from contrapose.build.captions.sentence import Token
from contrapose.data.tagging import WORD_PATTERN

SYMMETRIC_JOINTS = tuple(
    tuple(joint.split()) for joint in load_table("words.json")["symmetric_joints"]
)
"""Words whose two sides can be exchanged without changing the meaning."""
MAX_SIDE = 8
"""The longest side, in words."""


def equivalent_orders(
    words: Iterable[str], joints: Iterable[tuple[str, ...]] | None = None
) -> Iterator[tuple[str, ...]]:
    """All orders that swap two stretches of words around a symmetric joint such as “and”.

    This is wider than the safe swap around “and”: a caption that may be a hard positive must not be
    a negative.
    """
    row = tuple(words)
    for joint in SYMMETRIC_JOINTS if joints is None else joints:
        for at in range(len(row)):
            if row[at : at + len(joint)] != joint:
                continue
            behind = at + len(joint)
            for left in range(1, min(at, MAX_SIDE) + 1):
                for right in range(1, min(len(row) - behind, MAX_SIDE) + 1):
                    yield (
                        *row[: at - left],
                        *row[behind : behind + right],
                        *joint,
                        *row[at - left : at],
                        *row[behind + right :],
                    )


class DoubtError(Exception):
    """A rewritten caption fails verification; the message says why, to the language model."""


@lru_cache(maxsize=1024)
def normalize_words(text: str) -> tuple[str, ...]:
    """Words of a caption in lower case, “an” as “a”, without punctuation."""
    words = [word.lower() for word in WORD_PATTERN.findall(text) if word[0].isalnum()]
    return tuple("a" if word == "an" else word for word in words)


def have_same_words(caption: str, text: str) -> bool:
    """Whether two captions have the same multiset of words."""
    return Counter(normalize_words(caption)) == Counter(normalize_words(text))


def reads_alike(caption: str, text: str) -> bool:
    """Whether a text may mean the same, with the two sides of “and” and the like swapped."""
    words, old = normalize_words(text), normalize_words(caption)
    if len(words) != len(old):
        return False
    return words == old or (sorted(words) == sorted(old) and words in _cached_orders(old))


@lru_cache(maxsize=16)
def _cached_orders(words: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset(equivalent_orders(words))


def verify_one_word(caption: str, text: str, kind: str, *, keeps: bool) -> Rewrite:
    """Verify a rewrite that changes one word; an article before it may change too.

    Args:
        caption: the caption.
        text: the rewritten caption.
        kind: kind of change.
        keeps: whether the meaning must stay.

    Raises:
        DoubtError: no word or several changed, or the new one is known to be the wrong sort.
    """
    old, new = _tokenize_words(caption), _tokenize_words(text)
    if len(old) != len(new):
        raise DoubtError("exactly one word must be replaced by exactly one other word")
    changed = [
        i for i, (one, other) in enumerate(zip(old, new, strict=True))
        if one.low != other.low and not (is_article(one.low) and is_article(other.low))
    ]  # fmt: skip
    if len(changed) != 1:
        count = "none was" if not changed else f"{len(changed)} were"
        raise DoubtError(f"exactly one word must be replaced, and {count}")
    before, after = old[changed[0]], new[changed[0]]
    if keeps and are_exclusive(before.low, after.low):
        raise DoubtError(f"{after.low!r} does not mean the same as {before.low!r}")
    if not keeps and (before.low, after.low) in synonym_pairs():
        raise DoubtError(f"{after.low!r} means the same as {before.low!r}")
    if singularize(before.low) == singularize(after.low):
        raise DoubtError("the word must be another one, not another form of it")
    return edit_caption(caption, kind, [(before.start, before.end, after.low)])


def verify_reordering(caption: str, text: str, kind: str, *, keeps: bool) -> Rewrite:
    """Verify a rewrite that reorders the caption's words.

    One that keeps the meaning must swap two stretches around “and”; one that does not must not be a
    swap around any word that joins both sides alike.

    Raises:
        DoubtError: it is something else.
    """
    old, new = normalize_words(caption), normalize_words(text)
    if Counter(old) != Counter(new):
        raise DoubtError("the words must stay the same, none added, left out or changed")
    if old == new:
        raise DoubtError("the order of the words must change")
    if keeps and new not in set(equivalent_orders(old, (("and",),))):
        raise DoubtError('what stands on the two sides of "and" must change places, nothing else')
    if not keeps and reads_alike(caption, text):
        raise DoubtError("the meaning must change, and both sides may be exchanged here")
    return diff_captions(caption, _copy_ending(caption, text.strip()), kind)


def are_exclusive(word: str, other: str) -> bool:
    """Whether the table of contrasts says that two words exclude each other."""
    tables: tuple[Mapping[str, Sides], ...] = (load_lexicon().attributes, load_lexicon().objects)
    for sides in (sides for classes in tables for sides in classes.values()):
        positions = [
            side_index(sides).get(one, side_index(sides).get(singularize(one)))
            for one in (word, other)
        ]
        if None not in positions and positions[0] != positions[1]:
            return True
    return False


def fix_articles(text: str) -> str:
    """Make every “a” and “an” fit the word after it."""
    tokens = _tokenize(text)
    for token, after in reversed(list(pairwise(tokens))):
        if is_article(token.low) and after.low[0].isalnum():
            right = fit_article(text, token.text, after.text)
            text = text[: token.start] + right + text[token.end :]
    return text


def _copy_ending(caption: str, text: str) -> str:
    """Copy the caption's initial capital and final mark to the text."""
    stop = caption.rstrip()[-1:]
    text = text.rstrip(".!? ") + (stop if stop in (".", "!", "?") else "")
    first = text[0].upper() if caption.lstrip()[0].isupper() else text[0].lower()
    return fix_articles(first + text[1:])


def _tokenize(text: str) -> list[Token]:
    return [
        Token(match[0], match[0].lower(), match.start(), match.end(), "")
        for match in WORD_PATTERN.finditer(text)
    ]


def _tokenize_words(text: str) -> Sequence[Token]:
    return [token for token in _tokenize(text) if token.low[0].isalnum()]
