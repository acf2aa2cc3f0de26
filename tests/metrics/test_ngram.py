"""An n-gram model gives probabilities, and those that Kneser and Ney's formula says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import fit_ngram

WORDS = 6
sentences = st.lists(st.lists(st.integers(0, WORDS - 1), max_size=7), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(sentences, st.lists(st.integers(0, WORDS - 1), max_size=4), st.integers(1, 4))
def test_probabilities_of_all_words_add_up_to_one(
    corpus: list[list[int]], history: list[int], order: int
) -> None:
    if not any(corpus):
        corpus = [[0]]
    model = fit_ngram(corpus, WORDS, order)
    found = model.distribution(history)
    assert found.min() > 0
    assert found.sum() == pytest.approx(1, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(sentences, st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=6))
def test_a_sentence_is_read_word_by_word(corpus: list[list[int]], sentence: list[int]) -> None:
    model = fit_ngram([*corpus, [0]], WORDS)
    each = [model.distribution(sentence[:k])[word] for k, word in enumerate(sentence)]
    np.testing.assert_allclose(model.logprobs(sentence), np.log(each), rtol=1e-12)


def test_many_sentences_are_scored_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    corpus = [rng.integers(0, WORDS, size).tolist() for size in (3, 0, 5, 1, 7)]
    for order in (1, 2, 3):
        model = fit_ngram(corpus, WORDS, order)
        together = model.corpus_logprobs(corpus)
        for one, sentence in zip(together, corpus, strict=True):
            np.testing.assert_array_equal(one, model.logprobs(sentence))
            each = [model.distribution(sentence[:k])[word] for k, word in enumerate(sentence)]
            np.testing.assert_allclose(one, np.log(each), rtol=1e-12)
    assert model.corpus_logprobs([]) == []


def by_the_formula(corpus: list[list[int]], history: tuple[int, int], word: int) -> float:
    """P(w | uv) of a trigram model, written down with dictionaries and loops."""
    start = -1
    grams = Counter(
        (padded[i - 2], padded[i - 1], padded[i])
        for sentence in corpus
        for padded in [[start, start, *sentence]]
        for i in range(2, len(padded))
    )
    pairs = Counter((v, w) for _, v, w in grams)
    ones = Counter(w for _, w in pairs)

    def discount(counts: Counter[object]) -> float:
        once, twice = (sum(c == k for c in counts.values()) for k in (1, 2))
        return once / (once + 2 * twice) if once and twice else 0.5

    def step(counts: dict[tuple[int, ...], int], d: float, below: float) -> float:
        total = sum(counts.values())
        if not total:
            return below
        own = counts.get((word,), 0)
        return max(own - d, 0) / total + d * len(counts) / total * below

    u, v = history
    p = step({(w,): c for w, c in ones.items()}, discount(Counter(ones)), 1 / WORDS)
    p = step({(w,): c for (a, w), c in pairs.items() if a == v}, discount(Counter(pairs)), p)
    return step(
        {(w,): c for (a, b, w), c in grams.items() if (a, b) == (u, v)},
        discount(Counter(grams)),
        p,
    )


def test_probabilities_are_those_of_the_formula() -> None:
    rng = np.random.default_rng(3)
    corpus = [rng.integers(0, WORDS - 1, rng.integers(1, 8)).tolist() for _ in range(30)]
    model = fit_ngram(corpus, WORDS)
    for u in range(WORDS):
        for v in range(WORDS):
            found = model.distribution([u, v])
            expected = [by_the_formula(corpus, (u, v), w) for w in range(WORDS)]
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_was_seen_is_likelier_than_the_same_words_in_another_order() -> None:
    model = fit_ngram([[0, 1, 2, 3]] * 5 + [[3, 0, 1]], WORDS)
    assert model.logprobs([0, 1, 2, 3]).sum() > model.logprobs([3, 2, 1, 0]).sum()
    assert np.isfinite(model.logprobs([5, 5, 5])).all()


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(InputError, match="at least one word"):
        fit_ngram([[]], WORDS)
    with pytest.raises(InputError, match="from 0 to 5"):
        fit_ngram([[6]], WORDS)
    with pytest.raises(InputError, match="cannot be made"):
        fit_ngram([[0]], 10**7)
    with pytest.raises(InputError, match="from 0 to 5"):
        fit_ngram([[0]], WORDS).logprobs([-1])
