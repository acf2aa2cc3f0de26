"""The audit flags what can be solved blind, and only that."""

from __future__ import annotations

import numpy as np
import pytest

from contrapose.errors import InputError
from contrapose.metrics import audit, histogram, solvable_blind

MATCH = np.array([True, False, False])


def test_a_set_with_unlikely_negatives_is_flagged() -> None:
    scores = np.random.default_rng(0).normal(size=(400, 3)) + 1.0 * MATCH
    found = audit(scores, MATCH)
    assert found.solvable_blind
    assert found.outcome.chance == pytest.approx(1 / 3)
    assert found.ci95[0] < found.outcome.mean() < found.ci95[1]
    assert found.histogram.right.sum() == 400
    assert found.histogram.wrong.sum() == 800


def test_a_balanced_set_is_not_flagged() -> None:
    flagged = [
        audit(np.random.default_rng(seed).normal(size=(300, 3)), MATCH, resamples=1000)
        for seed in range(40)
    ]
    # Above chance by the lower end of a 95 % interval: about one in forty by accident.
    assert sum(found.solvable_blind for found in flagged) <= 4


def test_a_score_that_ties_is_no_solution() -> None:
    assert not audit(np.zeros((100, 1, 3)), MATCH[None]).solvable_blind


def test_padding_is_left_out() -> None:
    scores = np.array([[1.0, 0.0, np.nan], [1.0, 0.0, 2.0]])
    present = np.array([[True, True, False], [True, True, True]])
    found = audit(scores, MATCH, present)
    assert found.outcome.values.tolist() == [1, 0]
    assert found.histogram.wrong.sum() == 3
    assert found.histogram.edges[-1] == 2.0


def test_histogram_on_common_edges() -> None:
    values = np.array([-np.inf, 0.0, 1.0, 2.0, 4.0])
    right = np.array([True, True, False, False, False])
    found = histogram(values, right, bins=4)
    assert found.edges.tolist() == [0, 1, 2, 3, 4]
    assert found.right.tolist() == [2, 0, 0, 0]
    assert found.wrong.tolist() == [0, 1, 1, 1]
    assert histogram(np.zeros(3), [True, False, False], bins=2).right.sum() == 1


@pytest.mark.parametrize(
    "values",
    [
        [1.0, np.nextafter(1.0, 2)],
        [-37.5, np.nextafter(-37.5, 0), -37.5],
        [1e300, np.nextafter(1e300, 2e300)],
        [0.0, 5e-324],
        [-1e308, 1e308],
    ],
)
def test_histogram_of_nearly_equal_and_of_huge_values(values: list[float]) -> None:
    found = histogram(values, [True] + [False] * (len(values) - 1), bins=40)
    assert np.isfinite(found.edges).all()
    assert (np.diff(found.edges) > 0).all()
    assert found.right.sum() == 1
    assert found.wrong.sum() == len(values) - 1


def test_the_verdict() -> None:
    assert solvable_blind((0.51, 0.6), 0.5)
    assert not solvable_blind((0.5, 0.6), 0.5)
    assert not solvable_blind((0.51, 0.6), None)
    with pytest.raises(InputError, match="one image"):
        audit(np.zeros((3, 2, 2)), np.eye(2, dtype=bool))
