"""Baselines without a model: what they are, and that they never see which caption is right."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from contrapose.data import Example, ImageRef
from contrapose.data.examples import single_match
from contrapose.errors import InputError
from contrapose.evaluation.audit.scores import (
    _merge_ties,
    assign_folds,
    cross_fit_ngram,
    length_scores,
    ngram_scores,
    read_corpus,
    split_words,
)
from contrapose.scores import build_frame
from tests.evaluation.audit.benchmarks import captions


def examples(right: int, count: int = 40) -> list[Example]:
    texts = captions(2 * count)
    return [
        Example(
            str(i),
            (ImageRef(f"{i // 2}.png", Path(f"{i // 2}.png")),),
            (texts[2 * i], texts[2 * i + 1]),
            single_match(2, right),
        )
        for i in range(count)
    ]


def test_shorter_captions_score_higher_and_equal_ones_tie() -> None:
    assert length_scores(["a dog", "one two three", "A  Dog."]).tolist() == [-2, -3, -2]


def test_words_have_neither_case_nor_punctuation() -> None:
    assert split_words("The dog's bone, and -- a CAT.") == [
        "the",
        "dog's",
        "bone",
        "and",
        "a",
        "cat",
    ]


def test_folds_keep_examples_of_one_image_together() -> None:
    clusters = np.array([0, 5, 5, 2, 0, 9, 9, 9])
    folds = assign_folds(clusters, seed=0, folds=3)
    assert set(folds.tolist()) == {0, 1, 2}
    for cluster in set(clusters.tolist()):
        assert len(set(folds[clusters == cluster].tolist())) == 1


def test_the_own_model_is_blind_to_which_caption_is_right() -> None:
    first, second = (cross_fit_ngram(build_frame(examples(right)), seed=0) for right in (0, 1))
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first, second)


def test_the_own_model_has_not_read_what_it_scores() -> None:
    """A caption that stands in one fold alone is scored as if it stood nowhere."""
    read = examples(0)
    odd = "purple zebras juggle umbrellas"
    alone = Example(
        "x",
        (ImageRef("x.png", Path("x.png")),),
        (odd, "a red dog and a blue cat"),
        single_match(2, 0),
    )
    found = cross_fit_ngram(build_frame([*read, alone]), seed=0)
    assert found is not None
    corpus = [split_words(text) for each in read for text in each.texts]
    seen_nowhere = ngram_scores([*corpus], [odd])[0]
    seen = ngram_scores([*corpus, split_words(odd)], [odd])[0]
    assert abs(found[-1, 0] - seen_nowhere) < abs(found[-1, 0] - seen)


def test_an_example_has_the_same_score_in_every_selection() -> None:
    frame = build_frame(examples(0))
    every = cross_fit_ngram(frame, seed=0)
    some = cross_fit_ngram(frame, 0, ("7", "3", "38"))
    assert every is not None
    assert some is not None
    np.testing.assert_array_equal(some, every[[7, 3, 38]])


def test_one_image_leaves_nothing_to_fit_to() -> None:
    one = [
        Example(str(i), (ImageRef("a.png", Path("a.png")),), ("a dog", "a cat"), single_match(2, 0))
        for i in range(5)
    ]
    assert cross_fit_ngram(build_frame(one), seed=0) is None


def test_a_corpus_is_a_line_a_caption(tmp_path: Path) -> None:
    file = tmp_path / "corpus.txt"
    file.write_text("A dog runs.\n\n  \nTwo cats!\n", encoding="utf-8")
    assert read_corpus(file) == [["a", "dog", "runs"], ["two", "cats"]]
    usual, odd = ngram_scores(read_corpus(file) * 3, ["a dog runs", "runs dog a"])
    assert usual > odd


@pytest.mark.parametrize("content", [None, b"\xff\xfe\0", b" \n...\n"])
def test_a_corpus_that_is_none_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "corpus.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=r"corpus\.txt"):
        read_corpus(file)


def test_the_order_of_words_makes_no_difference_where_paper_gives_a_tie() -> None:
    words = ["dog", "cat", "bird", "fish", "cow", "hen"]
    corpus = [[word] for i, word in enumerate(words) for _ in range(i + 1)]
    captions = [f"x {' '.join(order)}" for order in itertools.permutations(words)]
    assert len(set(ngram_scores(corpus, captions).tolist())) == 1


def test_likelihoods_that_differ_by_rounding_tie() -> None:
    scores = np.array([[-3.0, -3.0 - 4.5e-16, np.nan], [-3.0, -3.0 - 1e-12, -3.0 + 4e-16]])
    merged = _merge_ties(scores)
    assert merged[0, 0] == merged[0, 1]
    assert np.isnan(merged[0, 2])
    assert merged[1, 1] < merged[1, 0] == merged[1, 2]
