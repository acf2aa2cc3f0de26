"""Tiers and groups from pairwise tests, against their definitions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import BoolArray, maximal_groups, mean_of, pad, significance_tiers


@st.composite
def differences(draw: st.DrawFn) -> BoolArray:
    """Symmetric matrix of pairs that differ, transitive or not."""
    n = draw(st.integers(1, 7))
    matrix = np.zeros((n, n), dtype=np.bool_)
    for i, j in combinations(range(n), 2):
        matrix[i, j] = matrix[j, i] = draw(st.booleans())
    return matrix


@given(differences())
def test_tiers_have_leaders_that_differ(differ: BoolArray) -> None:
    tiers = significance_tiers(differ)
    assert tiers[0] == 1
    leaders = [int(np.flatnonzero(tiers == tier)[0]) for tier in range(1, tiers.max() + 1)]
    assert leaders == sorted(leaders)
    for a, b in combinations(leaders, 2):
        assert differ[a, b]
    for model, tier in enumerate(tiers):
        alike = [k for k, leader in enumerate(leaders, 1) if not differ[leader, model]]
        assert tier == min(alike)


@given(differences())
def test_groups_are_the_maximal_cliques(differ: BoolArray) -> None:
    n = len(differ)

    def is_group(members: tuple[int, ...]) -> bool:
        return not any(differ[a, b] for a, b in combinations(members, 2))

    some = [g for size in range(1, n + 1) for g in combinations(range(n), size) if is_group(g)]
    maximal = {g for g in some if not any(set(g) < set(other) for other in some)}
    groups = list(maximal_groups(differ))
    assert len(groups) == len(set(groups))
    assert set(groups) == maximal
    for a, b in combinations(range(n), 2):  # a letter display: two share one if they do not differ
        assert any(a in g and b in g for g in groups) == (not differ[a, b])


def test_tests_that_are_not_transitive() -> None:
    """B differs from neither A nor C, which differ: C leads a tier, and B is in two groups."""
    differ = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool)
    assert significance_tiers(differ).tolist() == [1, 1, 2]
    assert sorted(maximal_groups(differ)) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("differ", [[[0, 1]], [[0, 1], [0, 0]], [[1]]])
def test_bad_matrices_are_refused(differ: list[list[int]]) -> None:
    with pytest.raises(InputError):
        significance_tiers(differ)


@pytest.mark.parametrize("values", [np.array([1.0, 0.0, 1.0]), np.linspace(0.1, 0.9, 100)])
def test_a_padded_statistic_keeps_its_value_and_share(values: np.ndarray) -> None:
    statistic = mean_of(values, share=True)
    padded = pad(statistic, 2, 5 + len(values))
    assert padded.examples == 5 + len(values)
    assert padded.value() == statistic.value()
    assert statistic.share is not None
    assert padded.share is not None
    hits, weights = padded.share()
    assert hits.sum() == pytest.approx(statistic.value())
    assert weights[2:-3].tolist() == statistic.share()[1].tolist()
    assert not weights[:2].any()
