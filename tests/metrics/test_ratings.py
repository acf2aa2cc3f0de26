"""Agreement with ratings: parity with scipy and with plain loops over pairs."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from contrapose.errors import InputError
from contrapose.metrics import (
    FloatArray,
    RankStatistic,
    kendall_statistic,
    kendall_tau,
    pairwise_statistic,
    rank_interval,
    rank_replicates,
    ratings,
    spearman_correlation,
    spearman_statistic,
    tie_threshold,
)
from contrapose.metrics.tie_thresholds import calibrate_ties

VALUES = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from([0.0, 0.1, 0.2, 0.30000000000000004, 5.0, -1e9])),
    min_size=2,
    max_size=30,
)


@given(VALUES)
@settings(deadline=None, max_examples=100)
def test_rank_correlations_are_those_of_scipy(pairs: list[tuple[int, float]]) -> None:
    x, y = zip(*pairs, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = stats.kendalltau(x, y).statistic, stats.spearmanr(x, y).statistic
    assert (kendall_tau(x, y), spearman_correlation(x, y)) == pytest.approx(expected, nan_ok=True)


def sample(size: int = 60, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    people = rng.integers(1, 6, size).astype(float)
    return np.round(people + rng.normal(0, 2, size), 1), people


def pair_accuracy(scores: FloatArray, people: FloatArray, epsilon: float) -> float:
    right = [
        (0 if abs(scores[i] - scores[j]) <= epsilon else np.sign(scores[i] - scores[j]))
        == np.sign(people[i] - people[j])
        for i, j in itertools.combinations(range(len(scores)), 2)
    ]
    return float(np.mean(right))


def test_the_threshold_of_ties_is_the_best_of_all_differences() -> None:
    for seed in range(4):
        scores, people = sample(25, seed)
        candidates = sorted({0.0, *np.abs(np.subtract.outer(scores, scores)).ravel().tolist()})
        values = [pair_accuracy(scores, people, epsilon) for epsilon in candidates]
        epsilon, accuracy = tie_threshold(scores, people)
        assert epsilon == candidates[int(np.argmax(values))]
        assert accuracy == pytest.approx(max(values))
        assert pairwise_statistic(scores, people, epsilon).value() == pytest.approx(accuracy)
    with pytest.raises(InputError, match="at least 2"):
        tie_threshold([1.0], [1.0])


def test_a_resample_is_what_its_examples_give() -> None:
    scores, people = sample(24)
    clusters = np.arange(24) // 3
    rng = np.random.default_rng(1)
    counts = rng.multinomial(8, [1 / 8] * 8, size=5)
    epsilon = 0.5
    agree = pairwise_statistic(scores, people, epsilon)
    for drawn in counts:
        index = np.repeat(np.arange(24), drawn[clusters])
        row = drawn[None].astype(float)
        got = [
            float(one.bind(clusters, 8)(row)[0])
            for one in (kendall_statistic(scores, people), spearman_statistic(scores, people))
        ]
        assert got == pytest.approx(
            [
                stats.kendalltau(scores[index], people[index]).statistic,
                stats.spearmanr(scores[index], people[index]).statistic,
            ]
        )
        gap = scores[index, None] - scores[index]
        right = np.where(np.abs(gap) <= epsilon, 0, np.sign(gap)) == np.sign(
            people[index, None] - people[index]
        )
        pairs = index[:, None] != index  # copies of one example are no pair
        assert float(agree.bind(clusters, 8)(row)[0]) == pytest.approx(right[pairs].mean())


@pytest.mark.parametrize("kind", ["kendall", "pairwise"])
def test_many_units_are_resampled_linearly(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, people = sample(300)

    def build() -> RankStatistic:
        if kind == "kendall":
            return kendall_statistic(scores, people)
        return pairwise_statistic(scores, people, 0.3)

    exact = rank_interval(build(), resamples=1000)
    value = build().value()
    monkeypatch.setattr(ratings, "MOST_UNITS", 100)
    assert build().value() == value
    assert rank_interval(build(), resamples=1000) == pytest.approx(exact, abs=0.01)


def test_ties_are_calibrated_on_other_clusters() -> None:
    scores, people = sample(100)
    clusters = np.arange(100) // 4
    calibration = calibrate_ties(scores, people, clusters)
    assert calibration is not None
    for cluster in range(25):
        assert len(set(calibration.fold[clusters == cluster].tolist())) == 1
    changed = scores.copy()
    changed[calibration.fold == 2] += 100 * people[calibration.fold == 2]
    again = calibrate_ties(changed, people, clusters)
    assert again is not None
    assert (again.thresholds[2] == calibration.thresholds[2]).all()
    others = [0, 1, 3, 4]
    assert (again.thresholds != calibration.thresholds)[np.ix_(others, others)].any()
    assert (
        pairwise_statistic(scores, people, calibration).value() <= tie_threshold(scores, people)[1]
    )
    assert calibrate_ties(scores[:12], people[:12], clusters[:12]) is None


def test_undefined_and_extreme_values() -> None:
    x = np.arange(20.0)
    assert math.isnan(kendall_tau(np.zeros(20), x))
    assert math.isnan(spearman_correlation(x, np.zeros(20)))
    assert math.isnan(rank_interval(kendall_statistic(np.zeros(20), x))[0])
    assert kendall_tau(x, x) == spearman_correlation(x, x) == 1
    assert math.isnan(rank_interval(kendall_statistic(x, x))[0])  # all resamples agree
    assert rank_interval(pairwise_statistic(x, x, 0.0))[1] == 1  # the exact interval of a share
    assert pairwise_statistic(x, x, 0.0).chance == 0.5
    assert not len(rank_replicates(kendall_statistic(x, -x), clusters=np.arange(20) // 4))
    for statistic in (kendall_statistic, spearman_statistic):
        with pytest.raises(InputError, match="every example"):
            statistic([1.0, 2.0], [1.0])
        with pytest.raises(InputError):
            statistic([1.0, math.nan], [1.0, 2.0])
