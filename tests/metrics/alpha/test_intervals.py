"""Why a prior from the example's own images is refused, and that it is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import (
    debias,
    first_intervals,
    log_prior,
    recalls,
    refuse_own_images,
    sweep,
    text_score,
)
from contrapose.metrics.alpha import intervals as intervals_module

MATCH = np.eye(2, dtype=bool)


def test_own_images_double_the_chance_level() -> None:
    lm = np.random.default_rng(0).normal(size=(20_000, 2, 2))
    own = log_prior(lm.transpose(1, 0, 2))
    assert text_score(lm, MATCH).mean() == pytest.approx(0.25, abs=0.02)
    assert text_score(debias(lm, own, 1.0), MATCH).mean() == pytest.approx(0.5, abs=0.02)
    with pytest.raises(InputError, match="own images"):
        refuse_own_images(lm, own)
    with pytest.raises(InputError, match="own images"):
        refuse_own_images(lm.astype(np.float32), own.astype(np.float32))


def test_other_priors_are_taken() -> None:
    rng = np.random.default_rng(0)
    lm = rng.normal(size=(50, 2, 2))
    own = log_prior(lm.transpose(1, 0, 2))
    refuse_own_images(lm, rng.normal(size=(50, 2)))
    refuse_own_images(lm, own + 1e-3)
    refuse_own_images(lm, np.where(np.arange(50)[:, None] < 49, own, own + 1))
    one = lm[:, :1]
    refuse_own_images(one, one[:, 0])  # one image: nothing collapses
    refuse_own_images(np.zeros((0, 2, 2)), np.zeros((0, 2)))


def test_padding_is_no_excuse() -> None:
    rng = np.random.default_rng(0)
    lm = rng.normal(size=(4, 3, 2))
    present = np.ones((4, 3, 2), dtype=bool)
    present[:2, 2] = False
    lm[~present] = np.nan
    prior = np.stack([log_prior(lm[i, : 2 if i < 2 else 3]) for i in range(4)])
    with pytest.raises(InputError, match="own images"):
        refuse_own_images(lm, prior, present)
    refuse_own_images(lm, prior + 0.1, present)


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
