"""Likelihoods in any of three forms become log-likelihoods, or are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from contrapose.errors import InputError
from contrapose.scoring import to_log_likelihood

LOGS = hnp.arrays(np.float64, 7, elements=st.floats(-30, -1e-3))


@given(LOGS)
def test_three_forms_are_one(logs: np.ndarray) -> None:
    assert np.array_equal(to_log_likelihood(logs, "log"), logs)
    assert np.allclose(to_log_likelihood(np.exp(logs), "probability"), logs)
    assert np.allclose(to_log_likelihood(-1 / logs, "inverse-nll"), logs)


def test_padding_stays() -> None:
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
def test_impossible_values(value: float, scale: str) -> None:
    with pytest.raises(InputError, match="likelihood-as"):
        to_log_likelihood(np.array([value]), scale)  # type: ignore[arg-type]
