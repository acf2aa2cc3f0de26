"""Chance levels against enumeration and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.metrics import (
    diagonal_group_chance,
    group_chance,
    group_score,
    image_chance,
    text_chance,
    text_score,
)
from contrapose.metrics.chance import count_orderings


def by_enumeration(function: object, match: np.ndarray) -> float:
    """The share of all orderings of an example's scores that win."""
    assert callable(function)
    size = match.size
    orders = np.array(list(itertools.permutations(range(size))), dtype=float)
    return float(function(orders.reshape(-1, *match.shape), match).values.mean())


MATCHES = [
    np.eye(2, dtype=bool),
    np.eye(2, dtype=bool)[::-1],
    np.array([[1, 0, 0], [0, 1, 0]], dtype=bool),
    np.array([[1, 0, 1], [0, 1, 0]], dtype=bool),
    np.array([[1, 1, 0], [0, 1, 1]], dtype=bool),
    np.array([[1, 0], [0, 1], [1, 0]], dtype=bool),
]


@pytest.mark.parametrize("match", MATCHES, ids=lambda m: str(m.astype(int).tolist()))
def test_group_chance_is_the_share_of_orderings(match: np.ndarray) -> None:
    assert group_chance(match[None]) == pytest.approx(by_enumeration(group_score, match))
    assert text_chance(match[None]) == pytest.approx(by_enumeration(text_score, match))


def test_a_diagonal_of_two_is_one_in_six() -> None:
    assert diagonal_group_chance(1) == 1
    assert diagonal_group_chance(2) == pytest.approx(1 / 6)


def test_a_diagonal_of_three_by_simulation() -> None:
    draws = np.random.default_rng(0).random((400_000, 3, 3))
    share = group_score(draws, np.eye(3, dtype=bool)).values.mean()
    level = diagonal_group_chance(3)
    assert level == pytest.approx(6 / (5 * 8 * 9))
    assert share == pytest.approx(level, abs=4 * math.sqrt(level / 400_000))


@pytest.mark.parametrize("m", [2, 3, 4])
def test_the_hook_formula_agrees_with_counting(m: int) -> None:
    cells = np.argwhere(np.ones((m, m)))
    diagonal = cells[:, 0] == cells[:, 1]
    line = (cells[:, None] == cells[None]).any(axis=2)
    orderings = count_orderings(diagonal[:, None] & ~diagonal[None] & line)
    assert orderings / math.factorial(m * m) == pytest.approx(diagonal_group_chance(m))


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_orderings_of_any_relation(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Above a diagonal there are no cycles.
    above = np.triu(rng.random((size, size)) < 0.4, k=1)
    expected = 0
    for order in itertools.permutations(range(size)):
        place = {thing: position for position, thing in enumerate(order)}
        expected += all(place[i] > place[j] for i, j in np.argwhere(above))
    assert count_orderings(above) == expected


def test_text_chance_of_one_image() -> None:
    match = np.zeros((1, 1, 5), dtype=bool)
    match[..., 2] = True
    assert text_chance(match) == pytest.approx(1 / 5)
    match[..., 4] = True
    assert text_chance(match) == pytest.approx(1 / 10)


def test_mixed_shapes_are_averaged() -> None:
    match = np.zeros((2, 2, 3), dtype=bool)
    match[:, [0, 1], [0, 1]] = True
    present = np.ones((2, 2, 3), dtype=bool)
    present[0, :, 2] = False
    alone = by_enumeration(group_score, match[1])
    assert group_chance(match, present) == pytest.approx((1 / 6 + alone) / 2)
    assert text_chance(match, present) == pytest.approx((1 / 4 + 1 / 9) / 2)
    assert image_chance(match, present) == pytest.approx(1 / 4)


def test_what_cannot_be_counted_has_no_level() -> None:
    match = np.zeros((1, 4, 5), dtype=bool)
    match[0, np.arange(4), np.arange(4)] = True
    assert group_chance(match) is None
    large = np.eye(7, dtype=bool)[None]
    assert group_chance(large) == pytest.approx(diagonal_group_chance(7))
