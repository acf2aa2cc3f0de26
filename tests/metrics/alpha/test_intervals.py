"""Intervals of α in galleries are those at which a right text is first."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import (
    first_intervals,
    recalls,
    sweep,
)
from contrapose.metrics.alpha import intervals as intervals_module

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.integers(1, 3), st.sampled_from([3, 1 << 22]))
def test_as_evaluated(seed: int, most: int, cells: int) -> None:
    """Multiples of 1/8, so that debiasing at a dyadic α is exact; ties are common."""
    rng = np.random.default_rng(seed)
    lm = rng.integers(-40, 0, size=(7, 9)) / 8
    prior = rng.integers(-40, 0, size=9) / 8
    pairs = [(i, j) for i in range(7) for j in rng.permutation(9)[: rng.integers(1, most + 1)]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals_module, "CELLS", cells)
        intervals = first_intervals(lm, prior, pairs)
    curve = sweep(intervals.lower, intervals.upper)
    for alpha in (0.0, 0.125, 0.5, 0.75, 1.0):
        expected = recalls(lm - alpha * prior, pairs, (1,))["image_to_text_r1"].values > 0
        np.testing.assert_array_equal(intervals.right_at(alpha), expected)
        assert curve.at(alpha) == pytest.approx(expected.mean())
    # Disjoint: no α is counted twice.
    for low, high in zip(intervals.lower, intervals.upper, strict=True):
        alive = sorted((a, b) for a, b in zip(low, high, strict=True) if a < b)
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(alive))


def test_an_image_without_a_text_is_right_nowhere() -> None:
    intervals = first_intervals(-np.ones((2, 3)), -np.ones(3), [(1, 0)])
    assert (intervals.lower[0] >= intervals.upper[0]).all()
    with pytest.raises(InputError, match="nothing to choose"):
        first_intervals(-np.ones((2, 3)), -np.ones(3), [])
    with pytest.raises(InputError, match="log priors"):
        first_intervals(-np.ones((2, 3)), -np.ones(2), [(1, 0)])
