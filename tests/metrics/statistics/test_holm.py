"""Holm's correction against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import holm

P_VALUES = st.lists(st.floats(0, 1), max_size=12)


@given(P_VALUES)
def test_against_a_loop(p_values: list[float]) -> None:
    m = len(p_values)
    expected = [0.0] * m
    highest = 0.0
    for rank, i in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (m - rank) * p_values[i]))
        expected[i] = highest
    np.testing.assert_allclose(holm(p_values), expected)


@given(P_VALUES, st.floats(0.001, 0.2))
def test_rejects_what_the_step_down_procedure_rejects(p_values: list[float], level: float) -> None:
    m = len(p_values)
    rejected = set()
    for rank, i in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        if p_values[i] * (m - rank) > level:
            break
        rejected.add(i)
    assert set(np.flatnonzero(holm(p_values) <= level).tolist()) == rejected


@given(P_VALUES)
def test_never_below_the_p_value_nor_above_bonferroni(p_values: list[float]) -> None:
    adjusted, p = holm(p_values), np.array(p_values)
    assert (adjusted >= p).all()
    assert (adjusted <= np.minimum(1, p * len(p)) + 1e-12).all()


def test_what_is_no_p_value_is_refused() -> None:
    for bad in ([1.5], [-0.1], [np.nan]):
        with pytest.raises(InputError, match="p-values"):
            holm(bad)
