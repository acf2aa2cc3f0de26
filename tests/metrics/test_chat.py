"""Multiple choice in several orders."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import joint_choice, multiple_choice


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


@given(st.integers(1, 3), st.integers(1, 3), st.integers(2, 3), st.integers(0, 2**32 - 1))
def test_several_questions_against_a_loop(
    questions: int, orders: int, options: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    answers = rng.integers(-1, options, size=(6, questions, orders))
    right = rng.integers(0, options, size=(6, questions))
    found = joint_choice(answers, right, options)
    for i in range(6):
        hits = [[answers[i, q, o] == right[i, q] for o in range(orders)] for q in range(questions)]
        for o in range(orders):
            assert found.orders[o].values[i] == float(all(row[o] for row in hits))
        combined = [
            all(hits[q][o] for q, o in enumerate(chosen))
            for chosen in itertools.product(range(orders), repeat=questions)
        ]
        assert found.mean.values[i] == pytest.approx(np.mean(combined))
        assert found.every.values[i] == float(all(map(all, hits)))
        same = all(len(set(row)) == 1 and row[0] != -1 for row in answers[i].tolist())
        assert found.consistent.values[i] == float(same)
    if questions == 1:
        alone = multiple_choice(answers[:, 0], right[:, 0], options)
        assert alone.mean.values.tolist() == found.mean.values.tolist()


def test_chance_of_several_questions_by_simulation() -> None:
    rng = np.random.default_rng(0)
    found = joint_choice(
        rng.integers(0, 2, size=(200_000, 2, 2)), rng.integers(0, 2, size=(200_000, 2))
    )
    for outcome in (*found.orders, found.mean, found.every, found.consistent):
        assert outcome.mean() == pytest.approx(outcome.chance, abs=0.005)


def test_a_taste_for_a_position_is_worth_chance_in_several_questions() -> None:
    # Each of two questions is right in the order that suits the taste, and wrong in the other.
    found = joint_choice(np.tile([[0, 1], [0, 1]], (9, 1, 1)), np.zeros((9, 2)))
    assert found.mean.mean() == found.mean.chance == 0.25


@pytest.mark.parametrize(
    "answers", [[[0, 1]], [[[2, 0]]], np.zeros((1, 1, 0)), np.zeros((1, 0, 1))]
)
def test_what_is_no_table_of_answers_is_refused(answers: object) -> None:
    with pytest.raises(InputError, match="answers must be"):
        joint_choice(answers, [[0]])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="right options"):
        joint_choice([[[0, 1]]], [0])
