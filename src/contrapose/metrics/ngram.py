"""N-gram language model of word numbers: interpolated Kneser–Ney, on arrays.

P(w | h) of a history h of k words takes a discount D from every count and gives what it saves to
the next shorter history:

    P(w | h) = max(c(hw) − D, 0) / c(h·) + D · N₁₊(h·) / c(h·) · P(w | h without its first word)

c are counts at the full length and, below it, in how many different contexts hw was seen. Below
single words all the vocabulary is equally likely, so that nothing is impossible and the
probabilities of all words add up to 1 whatever the history. D = n₁ / (n₁ + 2 n₂) at each length,
n₁ and n₂ being how many n-grams were seen once and twice.

Kneser and Ney (1995); Chen and Goodman, An Empirical Study of Smoothing Techniques (1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.errors import InputError
from contrapose.metrics.types import FloatArray, IntArray

ORDER = 3
"""Words of an n-gram."""


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """Counts of the n-grams of one length.

    Attributes:
        grams: codes of the n-grams that were seen, sorted.
        counts: of each.
        histories: codes of their histories, sorted.
        totals: counts of all that followed each history.
        kinds: how many different words followed each history.
        discount: D.
    """

    grams: IntArray
    counts: FloatArray
    histories: IntArray
    totals: FloatArray
    kinds: FloatArray
    discount: float


@dataclass(frozen=True, slots=True, eq=False)
class NGram:
    """Fitted n-gram model.

    Attributes:
        vocabulary: words are 0 … vocabulary − 1; all of them have some probability.
        levels: of n-grams of one word, two words, …
    """

    vocabulary: int
    levels: tuple[_Level, ...]

    def logprobs(self, sentence: IntArray | Sequence[int]) -> FloatArray:
        """(l,) log P of every word given those before it; before the first stand start marks."""
        return self.corpus_logprobs([sentence])[0]

    def corpus_logprobs(self, sentences: Sequence[IntArray | Sequence[int]]) -> list[FloatArray]:
        """(l,) `logprobs` of each sentence, computed in one pass."""
        if not sentences:
            return []
        words, sizes = _join_sentences(sentences, self.vocabulary)
        windows = _windows(words, sizes, len(self.levels), self.vocabulary)
        return np.split(np.log(self._probabilities(windows)), np.cumsum(sizes)[:-1])

    def distribution(self, history: IntArray | Sequence[int]) -> FloatArray:
        """(vocabulary,) P of every word after a history, itself after start marks."""
        order = len(self.levels)
        known, _ = _join_sentences([history], self.vocabulary)
        marks = np.full(order - 1, self.vocabulary, dtype=np.int64)
        last = np.concatenate([marks, known])[len(known) :] if order > 1 else known[:0]
        words = np.arange(self.vocabulary)
        before = np.broadcast_to(last, (len(words), order - 1))
        return self._probabilities(np.concatenate([before, words[:, None]], axis=1))

    def _probabilities(self, windows: IntArray) -> FloatArray:
        probabilities: FloatArray = np.full(len(windows), 1 / self.vocabulary)
        for length, level in enumerate(self.levels, start=1):
            codes = _encode(windows[:, -length:], self.vocabulary)
            base = self.vocabulary + 1
            counts = _look_up(level.grams, level.counts, codes)
            totals = _look_up(level.histories, level.totals, codes // base)
            kinds = _look_up(level.histories, level.kinds, codes // base)
            seen = totals > 0
            scale = np.where(seen, totals, 1.0)
            kept = np.maximum(counts - level.discount, 0) / scale
            backed_off = kept + level.discount * kinds / scale * probabilities
            probabilities = np.where(seen, backed_off, probabilities)
        return probabilities


def fit_ngram(
    sentences: Sequence[IntArray | Sequence[int]], vocabulary: int, order: int = ORDER
) -> NGram:
    """Fit a model to sentences of word numbers.

    Args:
        sentences: words 0 … vocabulary − 1.
        vocabulary: how many words there are, whether seen or not.
        order: words of the longest n-gram.

    Raises:
        InputError: there is no word to fit to, or one outside the vocabulary.
    """
    if vocabulary < 1 or order < 1 or (vocabulary + 1) ** order >= 2**63:
        raise InputError(f"an n-gram model of {order} words of {vocabulary} cannot be made.")
    windows = _windows(*_join_sentences(sentences, vocabulary), order, vocabulary)
    if not len(windows):
        raise InputError("an n-gram model needs at least one word to be fitted to.")
    levels: list[_Level] = []
    codes, counts = np.unique(_encode(windows, vocabulary), return_counts=True)
    for length in range(order, 0, -1):
        levels.append(_fit_level(codes, counts, vocabulary))
        # The next shorter n-grams are counted once for every longer one that they end.
        shorter = codes % (vocabulary + 1) ** (length - 1)
        codes, counts = np.unique(shorter, return_counts=True)
    return NGram(vocabulary, tuple(reversed(levels)))


def _fit_level(grams: IntArray, counts: IntArray, vocabulary: int) -> _Level:
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    discount = once / (once + 2 * twice) if once and twice else 0.5
    histories, first, kinds = np.unique(
        grams // (vocabulary + 1), return_index=True, return_counts=True
    )
    totals = np.add.reduceat(counts.astype(np.float64), first)
    return _Level(
        grams, counts.astype(np.float64), histories, totals, kinds.astype(np.float64), discount
    )


def _join_sentences(
    sentences: Sequence[IntArray | Sequence[int]], vocabulary: int
) -> tuple[IntArray, IntArray]:
    """Words of all sentences end to end, and the number of words of each."""
    rows = [np.asarray(sentence, dtype=np.int64).reshape(-1) for sentence in sentences]
    sizes = np.array([len(row) for row in rows], dtype=np.int64)
    words = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
    if words.size and not (words.min() >= 0 and words.max() < vocabulary):
        raise InputError(f"words of an n-gram model are numbers from 0 to {vocabulary - 1}.")
    return words, sizes


def _windows(words: IntArray, sizes: IntArray, order: int, start: int) -> IntArray:
    """(words, order) every word with those before it; a sentence begins with start marks."""
    marks = order - 1
    # Before the words of sentence k stand the marks of k + 1 sentences.
    at = np.arange(len(words)) + marks * (1 + np.repeat(np.arange(len(sizes)), sizes))
    padded = np.full(len(words) + marks * len(sizes), start, dtype=np.int64)
    padded[at] = words
    return np.asarray(padded[at[:, None] + np.arange(-marks, 1)])


def _encode(windows: IntArray, vocabulary: int) -> IntArray:
    """Integer code of each row of words; the last word is its last digit."""
    powers = (vocabulary + 1) ** np.arange(windows.shape[1] - 1, -1, -1, dtype=np.int64)
    return np.asarray(windows @ powers)


def _look_up(keys: IntArray, values: FloatArray, wanted: IntArray) -> FloatArray:
    """Look up the values of sorted keys; 0 for keys that are missing."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0.0)
