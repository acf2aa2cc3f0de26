"""Caption likelihoods, priors and debiasing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import logsumexp

from contrapose.errors import InputError
from contrapose.metrics import (
    debias,
    image_score,
    log_prior,
    to_log_likelihood,
    token_mean,
    token_sum,
    visual_gpt_score,
)
from contrapose.metrics.likelihood import subtract_prior


@given(
    st.lists(st.lists(st.floats(-30, 0, width=32), min_size=1, max_size=8), min_size=1, max_size=6)
)
def test_ragged_sums_and_means(captions: list[list[float]]) -> None:
    flat = np.array([x for caption in captions for x in caption], dtype=np.float32)
    offsets = np.cumsum([0] + [len(caption) for caption in captions])
    np.testing.assert_allclose(token_sum(flat, offsets), [math.fsum(c) for c in captions])
    means = [math.fsum(c) / len(c) for c in captions]
    np.testing.assert_allclose(token_mean(flat, offsets), means)
    np.testing.assert_allclose(visual_gpt_score(flat, offsets), np.exp(means))


@pytest.mark.parametrize(
    ("offsets", "words"), [([0, 2, 2, 4], "no tokens"), ([0, 3], "run from"), ([1, 4], "run from")]
)
def test_bad_offsets_are_refused(offsets: list[int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        token_sum(np.zeros(4), offsets)


def test_no_captions() -> None:
    assert token_mean(np.zeros(0), [0]).shape == (0,)


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_prior_is_the_log_of_the_mean_probability(images: int, seed: int) -> None:
    lm = np.random.default_rng(seed).uniform(-900, 0, size=(images, 4, 2))
    expected = logsumexp(lm, axis=0) - math.log(images)
    np.testing.assert_allclose(log_prior(lm), expected)


def test_prior_of_impossible_captions() -> None:
    assert log_prior([[-np.inf], [-np.inf]]).tolist() == [-np.inf]
    assert log_prior([[-np.inf], [0.0]]).tolist() == pytest.approx([math.log(0.5)])
    with pytest.raises(InputError, match="at least one image"):
        log_prior(np.zeros((0, 3)))


@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_debiasing_moves_captions_and_not_images(seed: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    lm, prior = rng.normal(size=(30, 2, 2)), rng.normal(size=(30, 2))
    scores = debias(lm, prior, alpha)
    np.testing.assert_allclose(scores[:, 1, 0], lm[:, 1, 0] - alpha * prior[:, 0])
    np.testing.assert_array_equal(debias(lm, prior, 0.0), lm)
    match = np.eye(2, dtype=bool)
    np.testing.assert_array_equal(image_score(scores, match).values, image_score(lm, match).values)


def test_shapes_must_fit() -> None:
    assert debias(np.zeros((4, 3)), np.ones((4, 3)), 1.0).tolist() == [[-1.0] * 3] * 4
    with pytest.raises(InputError, match="do not fit"):
        debias(np.zeros((4, 2, 3)), np.zeros((4, 2)), 0.5)
    with pytest.raises(InputError, match="infinite"):
        debias(np.zeros((4, 2, 3)), np.full((4, 3), -np.inf), 0.5)


@given(st.lists(st.tuples(*[st.integers(-99, -1)] * 3), min_size=1, max_size=9), st.integers(1, 4))
def test_ties_on_paper_are_ties(rows: list[tuple[int, int, int]], quarters: int) -> None:
    """lm − α·prior in decimals, beside the same in whole numbers."""
    whole = np.array(rows)
    prior = np.roll(whole, 1, axis=1)
    tenths = np.array([[float(f"{value / 10:.1f}") for value in row] for row in whole])
    scores = debias(tenths[:, None, :], np.roll(tenths, 1, axis=1), quarters / 4)[:, 0]
    exact = 4 * whole - quarters * prior
    for a in range(3):
        for b in range(3):
            assert np.array_equal(scores[:, a] > scores[:, b], exact[:, a] > exact[:, b])
    gallery = subtract_prior(tenths, quarters / 4, np.roll(tenths, 1, axis=1), grid=True)
    np.testing.assert_allclose(gallery, scores, rtol=1e-8, atol=1e-8)


MEAN_LOGS = hnp.arrays(np.float64, 7, elements=st.floats(-30, -1e-3))


@given(MEAN_LOGS)
def test_likelihood_scales_agree(logs: np.ndarray) -> None:
    assert np.array_equal(to_log_likelihood(logs, "log"), logs)
    assert np.allclose(to_log_likelihood(np.exp(logs), "probability"), logs)
    assert np.allclose(to_log_likelihood(-1 / logs, "inverse-nll"), logs)


def test_padding_of_likelihoods_stays_nan() -> None:
    assert np.isnan(to_log_likelihood(np.array([np.nan, 0.5]), "probability")[0])


@pytest.mark.parametrize(
    ("value", "scale"),
    [
        (0.3, "log"),
        (0.0, "probability"),
        (-0.1, "probability"),
        (1.5, "probability"),
        (-2, "inverse-nll"),
    ],
)
def test_impossible_likelihoods(value: float, scale: str) -> None:
    with pytest.raises(InputError, match="likelihood_as"):
        to_log_likelihood(np.array([value]), scale)  # type: ignore[arg-type]
