"""Why a prior from the example's own images is refused, and that it is."""

from __future__ import annotations

import numpy as np
import pytest

from contrapose.errors import InputError
from contrapose.metrics import FloatArray, debias, log_prior, refuse_own_images, text_score

MATCH = np.eye(2, dtype=bool)


def own_prior(lm: FloatArray) -> FloatArray:
    return log_prior(lm.transpose(1, 0, 2))


def captioner(
    evidence: float, seed: int = 0, size: int = 200, shape: tuple[int, int] = (2, 2)
) -> tuple[FloatArray, FloatArray]:
    """Likelihoods of a prior, what the image says, and noise; and that prior."""
    rng = np.random.default_rng(seed)
    prior = rng.normal(size=(size, shape[1])) - 4
    seen = evidence * np.eye(*shape) * (1 + 0.3 * rng.normal(size=(size, *shape)))
    return prior[:, None] + seen + 0.1 * rng.normal(size=(size, *shape)), prior


def test_own_images_double_the_chance_level() -> None:
    lm = np.random.default_rng(0).normal(size=(20_000, 2, 2))
    own = own_prior(lm)
    assert text_score(lm, MATCH).mean() == pytest.approx(0.25, abs=0.02)
    assert text_score(debias(lm, own, 1.0), MATCH).mean() == pytest.approx(0.5, abs=0.02)
    with pytest.raises(InputError, match="own images"):
        refuse_own_images(lm, own)
    with pytest.raises(InputError, match="own images"):
        refuse_own_images(lm.astype(np.float32), own.astype(np.float32))


@pytest.mark.parametrize("shape", [(2, 2), (1, 2), (1, 5)])
@pytest.mark.parametrize("evidence", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("size", [12, 400])
def test_own_images_are_recognized_after_rounding(
    shape: tuple[int, int], evidence: float, size: int
) -> None:
    lm, _ = captioner(evidence, 1, size, shape)
    own = own_prior(lm)
    some_other = np.where(np.arange(size)[:, None] < 0.98 * size, own, own + 1)
    disguised = [
        *(own.round(decimals) for decimals in (1, 2, 3, 4, 6)),
        *(np.log(np.exp(own).round(decimals)) for decimals in (4, 6)),
        own + (1e-3 if shape[0] > 1 else 1e-7),
        some_other if size > 50 else own,
        lm.mean(axis=1),
        lm[:, 0],
    ]
    for prior in disguised:
        with pytest.raises(InputError, match="own images"):
            refuse_own_images(lm, prior)
    with pytest.raises(InputError, match="own images"):
        refuse_own_images(lm.round(2), own)


def test_comparisons_that_agree_are_enough() -> None:
    lm, _ = captioner(0.1, 2, 400)
    with pytest.raises(InputError, match="own images"):
        refuse_own_images(lm, own_prior(lm) + 0.5)


@pytest.mark.parametrize("shape", [(2, 2), (1, 2), (1, 5)])
@pytest.mark.parametrize("evidence", [-5.0, 0.0, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("size", [3, 400])
def test_other_priors_are_taken(shape: tuple[int, int], evidence: float, size: int) -> None:
    """Also of a model that is right, or wrong, in every example."""
    lm, prior = captioner(evidence, 3, size, shape)
    noisy = prior + 0.3 * np.random.default_rng(4).normal(size=prior.shape)
    for one in (prior, noisy, noisy.round(1), prior.round(3), prior - 1, noisy[::-1]):
        refuse_own_images(lm, one)
        refuse_own_images(lm.round(2), one)
    refuse_own_images(np.zeros((0, *shape)), np.zeros((0, shape[1])))


def test_evidence_that_is_the_same_everywhere_is_no_sign() -> None:
    prior = np.random.default_rng(0).normal(size=(100, 2)) - 4
    refuse_own_images(prior[:, None] + 2 * np.eye(2), prior)


def test_padding_is_no_excuse() -> None:
    rng = np.random.default_rng(0)
    lm = rng.normal(size=(4, 3, 2))
    present = np.ones((4, 3, 2), dtype=bool)
    present[:2, 2] = False
    lm[~present] = np.nan
    prior = np.stack([log_prior(lm[i, : 2 if i < 2 else 3]) for i in range(4)])
    with pytest.raises(InputError, match="own images"):
        refuse_own_images(lm, prior, present)
    refuse_own_images(lm, prior + 0.5, present)
    one = lm[:, :1]
    captions = np.ones((4, 1, 2), dtype=bool)
    captions[0, 0, 1] = False
    with pytest.raises(InputError, match="nothing but rounding"):
        refuse_own_images(one, np.where(captions[:, 0], one[:, 0], np.nan), captions)
