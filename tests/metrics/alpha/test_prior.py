"""Why a prior from the example's own images is refused, and that it is."""

from __future__ import annotations

import numpy as np
import pytest

from contrapose.errors import InputError
from contrapose.metrics import debias, log_prior, refuse_own_images, text_score

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
