"""What is believed of a rewritten caption: one word changed, or the same words in another order.

Nothing is taken as it comes: the words are compared, and the new caption is the old one with the
change that was found, so that marks and capitals stay as they were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from contrapose.build.captions.alike import look_alikes
from contrapose.build.captions.articles import article_for, is_article
from contrapose.build.captions.change import Rewrite, difference, rewrite
from contrapose.build.captions.inflection import singular
from contrapose.build.captions.lexicon import Sides, lexicon, side_of
from contrapose.build.captions.replacements import synonyms
from contrapose.build.captions.sentence import Token
from contrapose.data.tagging import WORD


class DoubtError(Exception):
    """A rewritten caption is not what was asked for; its text says why, to who wrote it."""


@lru_cache(maxsize=1024)
def normal(text: str) -> tuple[str, ...]:
    """A caption's words in lower case, “an” as “a”, without punctuation marks."""
    words = [word.lower() for word in WORD.findall(text) if word[0].isalnum()]
    return tuple("a" if word == "an" else word for word in words)


def same_words(caption: str, text: str) -> bool:
    """Whether two captions have the same words, however often and in whatever order."""
    return Counter(normal(caption)) == Counter(normal(text))


def reads_alike(caption: str, text: str) -> bool:
    """Whether a text may say the same, with the two sides of “and” and the like swapped."""
    words, old = normal(text), normal(caption)
    if len(words) != len(old):
        return False
    return words == old or (sorted(words) == sorted(old) and words in _look_alikes(old))


@lru_cache(maxsize=16)
def _look_alikes(words: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset(look_alikes(words))


def one_word(caption: str, text: str, kind: str, *, keeps: bool) -> Rewrite:
    """A rewrite that changes one word; an article before it may change too.

    Args:
        caption: the caption.
        text: what came back.
        kind: the name of the change.
        keeps: whether the meaning is to stay.

    Raises:
        DoubtError: no word or several changed, or the new one is known to be the wrong sort.
    """
    old, new = _words(caption), _words(text)
    if len(old) != len(new):
        raise DoubtError("exactly one word must be replaced by exactly one other word")
    changed = [
        i for i, (one, other) in enumerate(zip(old, new, strict=True))
        if one.low != other.low and not (is_article(one.low) and is_article(other.low))
    ]  # fmt: skip
    if len(changed) != 1:
        found = "none was" if not changed else f"{len(changed)} were"
        raise DoubtError(f"exactly one word must be replaced, and {found}")
    before, after = old[changed[0]], new[changed[0]]
    if keeps and excludes(before.low, after.low):
        raise DoubtError(f"{after.low!r} does not mean the same as {before.low!r}")
    if not keeps and (before.low, after.low) in synonyms():
        raise DoubtError(f"{after.low!r} means the same as {before.low!r}")
    if singular(before.low) == singular(after.low):
        raise DoubtError("the word must be another one, not another form of it")
    return rewrite(caption, kind, [(before.start, before.end, after.low)])


def same_bag(caption: str, text: str, kind: str, *, keeps: bool) -> Rewrite:
    """A rewrite that has the caption's words in another order.

    One that keeps the meaning must swap two stretches around “and”; one that does not must not be a
    swap around any word that joins both sides alike.

    Raises:
        DoubtError: it is something else.
    """
    old, new = normal(caption), normal(text)
    if Counter(old) != Counter(new):
        raise DoubtError("the words must stay the same, none added, left out or changed")
    if old == new:
        raise DoubtError("the order of the words must change")
    if keeps and new not in set(look_alikes(old, (("and",),))):
        raise DoubtError('what stands on the two sides of "and" must change places, nothing else')
    if not keeps and reads_alike(caption, text):
        raise DoubtError("the meaning must change, and both sides may be exchanged here")
    return difference(caption, _ended_like(caption, text.strip()), kind)


def excludes(word: str, other: str) -> bool:
    """Whether the table of contrasts says that two words cannot both hold."""
    tables: tuple[Mapping[str, Sides], ...] = (lexicon().attributes, lexicon().objects)
    for sides in (sides for classes in tables for sides in classes.values()):
        places = [
            side_of(sides).get(one, side_of(sides).get(singular(one))) for one in (word, other)
        ]
        if None not in places and places[0] != places[1]:
            return True
    return False


def fix_articles(text: str) -> str:
    """The text with every “a” and “an” made to fit the word after it."""
    tokens = _tokens(text)
    for token, after in reversed(list(pairwise(tokens))):
        if is_article(token.low) and after.low[0].isalnum():
            right = article_for(after.text)
            right = right.capitalize() if token.text[0].isupper() else right
            text = text[: token.start] + right + text[token.end :]
    return text


def _ended_like(caption: str, text: str) -> str:
    """The text with the capital and the full stop that the caption has or has not."""
    stop = caption.rstrip()[-1:]
    text = text.rstrip(".!? ") + (stop if stop in (".", "!", "?") else "")
    first = text[0].upper() if caption.lstrip()[0].isupper() else text[0].lower()
    return fix_articles(first + text[1:])


def _tokens(text: str) -> list[Token]:
    return [
        Token(match[0], match[0].lower(), match.start(), match.end(), "")
        for match in WORD.finditer(text)
    ]


def _words(text: str) -> Sequence[Token]:
    return [token for token in _tokens(text) if token.low[0].isalnum()]
