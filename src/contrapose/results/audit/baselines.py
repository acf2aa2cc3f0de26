"""Scores of captions that need no model: their length, and an n-gram model of words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from contrapose.errors import InputError
from contrapose.metrics import FloatArray, IntArray, fit_ngram
from contrapose.scoring import Frame

FOLDS = 10
"""Parts into which the benchmark's own captions are cut, to fit on nine and score on the tenth."""

_WORD = re.compile(r"\w+(?:'\w+)*")
UNKNOWN = 0
"""The number of every word that the model was not fitted to."""


def lengths(texts: Sequence[str]) -> FloatArray:
    """The number of words, negative: shorter captions score higher. Equal lengths are ties."""
    return np.array([-len(text.split()) for text in texts], dtype=np.float64)


def words_of(text: str) -> list[str]:
    """The words of a caption, without case and punctuation."""
    return _WORD.findall(text.lower())


def read_corpus(path: Path) -> list[list[str]]:
    """The sentences of a text file, a line each.

    Raises:
        InputError: it cannot be read, or holds no word.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(
            f"cannot be read as a corpus ({why}); it must be text, a caption a line.", file=path
        ) from None
    sentences = [words for words in map(words_of, lines) if words]
    if not sentences:
        raise InputError("holds no captions to fit an n-gram model to.", file=path)
    return sentences


def ngram_scores(corpus: Sequence[Sequence[str]], texts: Sequence[str]) -> FloatArray:
    """(n,) mean log P of a word under a trigram model that was fitted to a corpus.

    Words that the corpus does not know are one word, of which it has seen none.
    """
    numbers = {word: i + 1 for i, word in enumerate(sorted({w for line in corpus for w in line}))}
    model = fit_ngram([[numbers[word] for word in line] for line in corpus], len(numbers) + 1)
    found = np.zeros(len(texts))
    for i, text in enumerate(texts):
        sentence = [numbers.get(word, UNKNOWN) for word in words_of(text)] or [UNKNOWN]
        found[i] = model.logprobs(sentence).mean()
    return found


def folds_of(clusters: IntArray, seed: int, folds: int = FOLDS) -> IntArray:
    """For each example its fold; examples that share an image are in one."""
    codes = np.unique(clusters, return_inverse=True)[1].reshape(-1)
    count = int(codes.max()) + 1
    drawn = np.random.default_rng(seed).permutation(count)
    return np.asarray((drawn % min(folds, count))[codes])


def own_ngram(frame: Frame, seed: int) -> FloatArray | None:
    """(k, n) scores of a trigram model of the benchmark's own captions, right and wrong alike.

    Each example is scored by a model that was fitted to the examples of the other folds, every
    distinct caption once; which captions are right is never used. What such a model knows is
    which phrases come back: where wrong captions are made by a pattern, it tells them.

    Returns:
        None when all examples share one image, so that there is nothing to fit to.
    """
    texts = frame.texts or ()
    clusters = np.arange(len(frame)) if frame.clusters is None else frame.clusters
    fold = folds_of(clusters, seed)
    if not fold.any():
        return None
    found = np.full((len(frame), frame.match.shape[2]), np.nan)
    for one in range(int(fold.max()) + 1):
        others = np.flatnonzero(fold != one).tolist()
        seen = dict.fromkeys(text for k in others for text in texts[k])
        corpus = [words for words in map(words_of, seen) if words]
        if not corpus:
            return None
        inside = np.flatnonzero(fold == one).tolist()
        flat = ngram_scores(corpus, [text for k in inside for text in texts[k]])
        start = 0
        for k in inside:
            end = start + len(texts[k])
            found[k, : len(texts[k])] = flat[start:end]
            start = end
    return found
