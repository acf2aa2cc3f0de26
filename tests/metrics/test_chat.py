"""Multiple choice in several orders."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import multiple_choice


@given(st.integers(1, 4), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_against_a_loop(orders: int, options: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    answers = rng.integers(-1, options, size=(10, orders))
    right = rng.integers(0, options, size=10)
    found = multiple_choice(answers, right, options)
    for i, row in enumerate(answers.tolist()):
        hits = [answer == right[i] for answer in row]
        assert [o.values[i] for o in found.orders] == [float(h) for h in hits]
        assert found.mean.values[i] == pytest.approx(np.mean(hits))
        assert found.every.values[i] == float(all(hits))
        assert found.consistent.values[i] == float(len(set(row)) == 1 and row[0] != -1)
        assert found.parsed.values[i] == pytest.approx(np.mean([a != -1 for a in row]))


def test_a_taste_for_the_first_position_is_chance_and_inconsistent() -> None:
    # Always the first option, in both orders, whatever the caption.
    found = multiple_choice(np.array([[0, 1]] * 50), 0)
    assert [o.mean() for o in found.orders] == [1.0, 0.0]
    assert found.mean.mean() == found.mean.chance == 0.5
    assert found.every.mean() == 0
    assert found.consistent.mean() == 0


def test_chance_by_simulation() -> None:
    answers = np.random.default_rng(0).integers(0, 3, size=(200_000, 2))
    found = multiple_choice(answers, 1, options=3)
    for outcome in (*found.orders, found.mean, found.every, found.consistent):
        assert outcome.mean() == pytest.approx(outcome.chance, abs=0.005)


@pytest.mark.parametrize("answers", [[[2, 0]], [[-2, 0]], [0, 1]])
def test_what_is_no_option_is_refused(answers: object) -> None:
    with pytest.raises(InputError, match="answers must be"):
        multiple_choice(answers, 0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="right options"):
        multiple_choice([[0, 1]], [0, 1])
