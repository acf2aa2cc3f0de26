"""Parts of speech of a caption's words, as Penn Treebank tags.

The default tagger is textblob's lexicon (from the pattern library): it is fast and carries its data
along, but knows no context, so that “a man rides” has two nouns. spaCy's small English model, which
the authors of ARO used, is used when asked for.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

from contrapose.errors import ContraposeError, MissingExtraError

Tagger = Literal["textblob", "spacy"]
Tagged = list[tuple[str, str]]
"""Words, each with its tag."""

WORD = re.compile(r"\w+(?:[-'’/&.]\w+)*|[^\w\s]")
CLOSING = frozenset(",.;:!?%")
SPACY_MODEL = "en_core_web_sm"


def words_of(text: str) -> list[str]:
    """Words and punctuation marks; “t-shirt”, “man's” and “black/white” are one word each."""
    return WORD.findall(text)


def join(words: Sequence[str]) -> str:
    """The text of these words, closing punctuation set against the word before it."""
    return "".join(word if word in CLOSING else f" {word}" for word in words).strip()


def tag(text: str, tagger: Tagger = "textblob") -> Tagged:
    """The words of a text, each with its tag (DT, NN, VBZ, JJ, …).

    Raises:
        MissingExtraError: the tagger's package is not installed.
        ContraposeError: spaCy's model is not installed.
    """
    return _load(tagger)(words_of(text))


@cache
def _load(tagger: Tagger) -> Callable[[list[str]], Tagged]:
    return _spacy() if tagger == "spacy" else _textblob()


def _textblob() -> Callable[[list[str]], Tagged]:
    try:
        from textblob.en import parser
    except ImportError:
        raise MissingExtraError("textblob", "text", "Tagging parts of speech") from None
    with warnings.catch_warnings():
        # The first use reads the lexicon and leaves its file to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        parser.find_tags(["a"])
    return lambda words: [(word, penn) for word, penn in parser.find_tags(words)]


def _spacy() -> Callable[[list[str]], Tagged]:
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

    def tagged(words: list[str]) -> Tagged:
        return [(token.text, token.tag_) for token in model(Doc(model.vocab, words=words))]

    return tagged
