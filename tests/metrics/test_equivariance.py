"""The equivariance score and what leaves it alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import equivariance

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
def test_against_the_formula(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(2, 3, size=(20, 2, 2)).astype(np.float32)
    found = equivariance(scores)
    z = (scores.astype(float) - scores.astype(float).mean()) / scores.astype(float).std()
    for i, s in enumerate(z):
        assert found.text[i] == pytest.approx((s[0, 0] - s[0, 1]) - (s[1, 1] - s[1, 0]))
        assert found.image[i] == pytest.approx((s[0, 0] - s[1, 0]) - (s[1, 1] - s[0, 1]))
    summary = found.summary()
    assert summary["text_mean"] == pytest.approx(found.text.mean())
    assert summary["text_std"] == pytest.approx(found.text.std())
    assert summary["image_mean_abs"] == pytest.approx(np.abs(found.image).mean())
    assert list(summary) == [
        f"{a}_{b}" for a in ("text", "image") for b in ("mean", "std", "mean_abs")
    ]


@given(SEEDS)
def test_symmetric_with_a_constant_diagonal_is_zero(seed: int) -> None:
    rng = np.random.default_rng(seed)
    off, on = rng.normal(size=(2, 30))
    scores = np.stack([np.stack([on, off], 1), np.stack([off, on], 1)], 1)
    found = equivariance(scores)
    np.testing.assert_allclose(found.text, 0, atol=1e-12)
    np.testing.assert_allclose(found.image, 0, atol=1e-12)


@given(SEEDS, st.floats(0.01, 100), st.floats(-100, 100))
def test_affine_maps_of_the_scores_change_nothing(seed: int, scale: float, shift: float) -> None:
    scores = np.random.default_rng(seed).normal(size=(20, 2, 2))
    plain, moved = equivariance(scores), equivariance(scale * scores + shift)
    np.testing.assert_allclose(moved.text, plain.text, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(moved.image, plain.image, rtol=1e-6, atol=1e-8)


@given(SEEDS)
def test_exchanging_images_and_captions_exchanges_the_sides(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(20, 2, 2))
    plain, turned = equivariance(scores), equivariance(scores.transpose(0, 2, 1))
    np.testing.assert_allclose(turned.text, plain.image)
    np.testing.assert_allclose(turned.image, plain.text)


def test_a_subset_stays_standardised_over_all() -> None:
    scores = np.random.default_rng(0).normal(size=(20, 2, 2))
    found = equivariance(scores)
    chosen = np.arange(20) < 5
    np.testing.assert_array_equal(found.only(chosen).text, found.text[:5])
    assert not np.allclose(found.only(chosen).text, equivariance(scores[:5]).text)


def test_constant_scores_are_equivariant_and_infinite_ones_refused() -> None:
    assert equivariance(np.full((3, 2, 2), 0.7)).summary()["text_mean_abs"] == pytest.approx(0)
    with pytest.raises(InputError, match="infinite"):
        equivariance(np.full((3, 2, 2), np.inf))
    with pytest.raises(InputError, match="shape"):
        equivariance(np.zeros((3, 2, 3)))
    assert equivariance(np.zeros((0, 2, 2))).text.shape == (0,)
