"""Thresholds of ties: the exact search and samples against all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import (
    FloatArray,
    IntArray,
    is_threshold_exact,
    pair_counts,
    pairwise_statistic,
    tie_threshold,
)
from contrapose.metrics import tie_thresholds as ties
from contrapose.metrics.tie_thresholds import calibrate_ties


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    ties._known.clear()


def sample(size: int, seed: int = 0, digits: int = 9) -> tuple[FloatArray, FloatArray]:
    """Scores of which those of a frequent rating are close: the best threshold is above 0."""
    rng = np.random.default_rng(seed)
    people = np.where(rng.random(size) < 0.7, 5, rng.integers(1, 5, size)).astype(np.float64)
    noise = rng.normal(size=size) * np.where(people == 5, 0.3, 1.5)
    return np.round(people + noise, digits), people


def by_all_pairs(scores: FloatArray, people: FloatArray) -> tuple[float, float]:
    first, second = np.triu_indices(len(scores), 1)
    gap, order = scores[first] - scores[second], people[first] - people[second]
    candidates = np.unique([0.0, *np.abs(gap)])
    right = [
        int((np.where(np.abs(gap) <= epsilon, 0, np.sign(gap)) == np.sign(order)).sum())
        for epsilon in candidates
    ]
    best = int(np.argmax(right))
    return float(candidates[best]), right[best] / len(gap)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(3, 40),
    st.sampled_from([0, 1, 9]),
    st.sampled_from([1, 20, 10**6]),
    st.sampled_from([2, 2_000]),
)
@settings(deadline=None, max_examples=60)
def test_the_search_ends_at_the_best_of_all(
    seed: int, size: int, digits: int, held: int, trials: int
) -> None:
    """However few pairs are held at a time, and however early the search gives up."""
    scores, people = sample(size, seed, digits)
    expected = by_all_pairs(scores, people)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ties, "MOST_TRIALS", trials)
        patch.setattr(ties, "HELD_PAIRS", held)
        for levels in (0, 10**6):
            patch.setattr(ties, "MOST_LEVELS", levels)
            ties._known.clear()
            assert tie_threshold(scores, people) == pytest.approx(expected, rel=1e-12)


def test_the_search_looks_at_few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, people = sample(900)
    expected = tie_threshold(scores, people)
    assert expected[0] > 0.1
    ties._known.clear()
    monkeypatch.setattr(ties, "HELD_PAIRS", 20_000)
    monkeypatch.setattr(ties, "MOST_LEVELS", 0)
    seen: list[int] = []
    sweep = ties._sweep

    def count(distance: FloatArray, change: IntArray, start: float) -> tuple[float, float]:
        seen.append(len(distance))
        return sweep(distance, change, start)

    monkeypatch.setattr(ties, "_sweep", count)
    assert tie_threshold(scores, people) == expected
    assert sum(seen) <= 20_000


def test_a_sample_is_nearly_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """A threshold of a sample of pairs; the accuracy is that of all pairs at it."""
    scores, people = sample(700)
    best = tie_threshold(scores, people)
    ties._known.clear()
    for name, value in (("MOST_EXAMPLES", 100), ("MOST_LEVELS", 10), ("HELD_PAIRS", 1_000)):
        monkeypatch.setattr(ties, name, value)
    monkeypatch.setattr(ties, "SAMPLED_PAIRS", 1 << 16)
    assert not is_threshold_exact(scores)
    epsilon, accuracy = tie_threshold(scores, people)
    assert best[1] - 0.005 < accuracy <= best[1]
    assert pairwise_statistic(scores, people, epsilon).value() == pytest.approx(accuracy)
    monkeypatch.setattr(ties, "MOST_LEVELS", 1 << 20)
    assert is_threshold_exact(scores)


@pytest.mark.parametrize("digits", [0, 9])
def test_thresholds_of_folds_by_one_sample(digits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, people = sample(600, digits=digits)
    clusters = np.arange(600) // 4
    whole_set = calibrate_ties(scores, people, clusters)
    ties._known.clear()
    monkeypatch.setattr(ties, "MOST_EXAMPLES", 100)
    monkeypatch.setattr(ties, "SAMPLED_PAIRS", 1 << 18)
    sampled = calibrate_ties(scores, people, clusters)
    assert whole_set is not None
    assert sampled is not None
    assert (sampled.fold == whole_set.fold).all()
    assert (sampled.thresholds == sampled.thresholds.T).all()
    np.testing.assert_allclose(sampled.thresholds, whole_set.thresholds, atol=0.3)
    accuracies = [pairwise_statistic(scores, people, one).value() for one in (whole_set, sampled)]
    assert accuracies[1] == pytest.approx(accuracies[0], abs=0.01)
    changed = np.where(sampled.fold == 2, scores + 100 * people, scores)
    again = calibrate_ties(changed, people, clusters)
    assert again is not None
    assert (again.thresholds[2] == sampled.thresholds[2]).all()


@pytest.mark.parametrize("digits", [0, 1, 9])
@pytest.mark.parametrize("sign", [1, -1])
def test_thresholds_of_a_sample_are_the_best_of_its_pairs(
    digits: int, sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores, people = sample(60, digits=digits)
    scores = sign * scores
    fold = np.arange(60) % ties.FOLDS
    monkeypatch.setattr(ties, "SAMPLED_PAIRS", 500)
    thresholds = ties._calibrate_sample(scores, people, fold, np.random.default_rng(3))
    assert thresholds is not None
    first, second = pair_counts.sample_pairs(60, 500, np.random.default_rng(3))
    for a in range(ties.FOLDS):
        for b in range(ties.FOLDS):
            inside = ~np.isin(fold[first], (a, b)) & ~np.isin(fold[second], (a, b))
            best, _ = ties._sweep_pairs(scores, people, first[inside], second[inside])
            assert thresholds[a, b] == best
    alone = np.zeros(60, dtype=np.int64)
    assert ties._calibrate_sample(scores, people, alone, np.random.default_rng(3)) is None


def test_the_same_question_is_answered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, people = sample(50)
    answers = tie_threshold(scores, people), calibrate_ties(scores, people)
    monkeypatch.setattr(ties, "_sweep_pairs", None)
    assert tie_threshold(scores, people) == answers[0]
    assert calibrate_ties(scores, people) is answers[1]
    with pytest.raises(TypeError):
        tie_threshold(scores + 1, people)


def test_too_few_examples() -> None:
    with pytest.raises(InputError, match="at least 2"):
        tie_threshold([1.0], [1.0])
    assert tie_threshold([1.0, 2.0], [3.0, 3.0]) == (1.0, 1.0)
    assert calibrate_ties([1.0, 2.0], [3.0, 3.0]) is None
