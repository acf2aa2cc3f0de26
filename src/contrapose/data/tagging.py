"""Part-of-speech tags of a caption's words (Penn Treebank), and word groups by tag.

The default tagger is textblob's lexicon (from the pattern library): it is fast and carries its data
along, but knows no context, so that “a man rides” has two nouns. spaCy's small English model, which
the authors of ARO used, is used when asked for. Word groups are object words O, relation words R
and attribute words A.

The default tagger is textblob's lexicon (from the pattern library): it is fast and carries its data
along, but knows no context, so that “a man rides” has two nouns. spaCy's small English model, which
the authors of ARO used, is used when asked for.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Literal

from contrapose.errors import ContraposeError, MissingExtraError

Tagger = Literal["textblob", "spacy"]
TaggedTokens = list[tuple[str, str]]
"""Words, each with its tag."""

WORD_PATTERN = re.compile(r"\w+(?:[-'’/&.]\w+)*|[^\w\s]")
CLOSING_MARKS = frozenset(",.;:!?%")
SPACY_MODEL = "en_core_web_sm"


def split_words(text: str) -> list[str]:
    """Split a text into words and punctuation; “t-shirt” and “man's” are one word each."""
    return WORD_PATTERN.findall(text)


def join_words(words: Sequence[str]) -> str:
    """Join words to a text, closing punctuation set against the word before it."""
    return "".join(word if word in CLOSING_MARKS else f" {word}" for word in words).strip()


def tag_words(text: str, tagger: Tagger = "textblob") -> TaggedTokens:
    """Tag the words of a text with parts of speech (DT, NN, VBZ, JJ, …).

    Raises:
        MissingExtraError: the tagger's package is not installed.
        ContraposeError: spaCy's model is not installed.
    """
    return _load_tagger(tagger)(split_words(text))


@cache
def _load_tagger(tagger: Tagger) -> Callable[[list[str]], TaggedTokens]:
    return _load_spacy() if tagger == "spacy" else _load_textblob()


def _load_textblob() -> Callable[[list[str]], TaggedTokens]:
    try:
        from textblob.en import parser
    except ImportError:
        raise MissingExtraError("textblob", "text", "Tagging parts of speech") from None
    with warnings.catch_warnings():
        # The first use reads the lexicon and leaves its file to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        parser.find_tags(["a"])
    return lambda words: [(word, penn) for word, penn in parser.find_tags(words)]


def _load_spacy() -> Callable[[list[str]], TaggedTokens]:
    try:
        import spacy
        from spacy.tokens import Doc
    except ImportError:
        raise MissingExtraError("spacy", "spacy", "The spaCy tagger") from None
    try:
        model = spacy.load(SPACY_MODEL)
    except OSError:
        raise ContraposeError(
            f"The spaCy tagger needs its model: python -m spacy download {SPACY_MODEL}."
        ) from None

    def tagged(words: list[str]) -> TaggedTokens:
        return [(token.text, token.tag_) for token in model(Doc(model.vocab, words=words))]

    return tagged


O, R, A = GROUPS = ("O", "R", "A")  # noqa: E741 - the paper's letters
"""Objects, relations, attributes: in the order of the players."""

CharSpan = tuple[int, int]
"""Offsets of a first character and of the one after the last."""
WordGroups = Mapping[str, tuple[CharSpan, ...]]
"""By name, where a group's words are; a caption need not have every group."""


def word_group(penn: str) -> str | None:
    """Return the word group of a Penn Treebank tag; None for articles, adverbs and marks."""
    if penn.startswith("NN"):
        return O
    if penn.startswith("VB") or penn in ("IN", "TO", "RP"):
        return R
    return A if penn.startswith("JJ") or penn == "CD" else None


def tag_groups(text: str, tagger: Tagger = "textblob") -> WordGroups:
    """Group a caption's words by tag: nouns; verbs and prepositions; adjectives and numerals.

    Raises:
        MissingExtraError: the tagger's package is not installed.
    """
    places = (match.span() for match in WORD_PATTERN.finditer(text))
    tags = (word_group(penn) for _, penn in tag_words(text, tagger))
    return collect_groups(zip(tags, places, strict=True))


def collect_groups(words: Iterable[tuple[str | None, CharSpan]]) -> WordGroups:
    """Collect words into their groups, in the order of `GROUPS`."""
    found: dict[str, list[CharSpan]] = {}
    for group, place in words:
        if group is not None:
            found.setdefault(group, []).append(place)
    return {name: tuple(found[name]) for name in GROUPS if name in found}
