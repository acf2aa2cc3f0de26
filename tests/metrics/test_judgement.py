"""Thresholds and calibration of yes/no judgements, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import auroc, auroc_interval
from contrapose.metrics.judgement import best_threshold, calibration_error, cross_fit

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=12)


@settings(deadline=None)
@given(PAIRS)
def test_no_threshold_is_better_than_the_best(pairs: list[tuple[int, bool]]) -> None:
    scores = np.array([score for score, _ in pairs], dtype=np.float64)
    labels = np.array([label for _, label in pairs])
    best = ((scores >= best_threshold(scores, labels)) == labels).sum()
    assert best == max(((scores >= level - 0.5) == labels).sum() for level in range(9))


def test_a_threshold_lies_between_scores() -> None:
    assert best_threshold([0.1, 0.2, 0.6], [False, False, True]) == pytest.approx(0.4)
    assert best_threshold([0.1, 0.2], [True, True]) == -np.inf
    assert best_threshold([0.1, 0.2], [False, False]) == np.inf
    close = np.nextafter(1.0, 2.0)
    assert 1.0 < best_threshold([1.0, close], [False, True]) <= close
    with pytest.raises(InputError, match="at least one"):
        best_threshold([], [])
    with pytest.raises(InputError, match="labels"):
        best_threshold([1.0], [True, False])


def test_clusters_stay_in_one_fold_and_choose_nothing_for_themselves() -> None:
    rng = np.random.default_rng(1)
    scores, clusters = rng.random(60), np.repeat(np.arange(20), 3)
    labels = rng.random(60) < scores
    fit = cross_fit(scores, labels, clusters)
    assert fit is not None
    assert len(fit.thresholds) == 5
    for cluster in range(20):
        assert len(set(fit.fold[clusters == cluster].tolist())) == 1
    for fold, threshold in enumerate(fit.thresholds):
        outside = fit.fold != fold
        assert threshold == best_threshold(scores[outside], labels[outside])
    assert cross_fit(scores[:3], labels[:3], clusters[:3]) is None


def test_calibration_error_is_the_weighted_gap_of_bins() -> None:
    values = np.array([0.05, 0.05, 0.95, 1.0])
    labels = [True, False, True, True]
    error = calibration_error(values, labels, bins=10)
    assert error.value() == pytest.approx((abs(1 - 0.1) + abs(2 - 1.95)) / 4)
    halved = calibration_error(values, labels, [1, 1, 0, 0], bins=10)
    assert halved.value() == pytest.approx(0.45)
    with pytest.raises(InputError, match="probabilities"):
        calibration_error([1.5], [True])


@settings(deadline=None)
@given(PAIRS)
def test_auroc_of_single_pairs(pairs: list[tuple[int, bool]]) -> None:
    scores = np.array([score for score, _ in pairs], dtype=np.float64)
    labels = np.array([label for _, label in pairs])
    present = np.stack([labels, ~labels], axis=1)
    area = auroc(np.stack([scores, scores], axis=1), present=present)
    wins = [
        (a > b) + (a == b) / 2 for a in scores[labels].tolist() for b in scores[~labels].tolist()
    ]
    assert area == pytest.approx(np.mean(wins)) if wins else np.isnan(area)


def test_an_area_of_one_label_has_no_interval() -> None:
    scores = np.random.default_rng(0).random((12, 2))
    present = np.stack([np.ones(12, dtype=bool), np.zeros(12, dtype=bool)], axis=1)
    assert np.isnan(auroc_interval(scores, present=present)).all()
