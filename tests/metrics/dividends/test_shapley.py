from __future__ import annotations

import json
from itertools import combinations, permutations
from math import comb, factorial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from contrapose.errors import InputError
from contrapose.metrics.dividends import (
    coalitions_of,
    moebius,
    shapley_interactions,
    shapley_values,
)

Games = NDArray[np.float64]

SHAPIQ = json.loads((Path(__file__).parent / "shapiq.json").read_text())

numbers = st.floats(-100, 100, width=32)
small_games = st.integers(1, 5).flatmap(lambda n: arrays(np.float64, 2**n, elements=numbers))


@settings(max_examples=30)
@given(small_games)
def test_is_the_mean_over_orders_of_arrival(values: Games) -> None:
    n = len(values).bit_length() - 1
    expected = np.zeros(n)
    for order in permutations(range(n)):
        present = 0
        for player in order:
            expected[player] += values[present | 1 << player] - values[present]
            present |= 1 << player
    assert shapley_values(moebius(values)) == pytest.approx(expected / factorial(n), abs=1e-8)


@given(small_games)
def test_values_share_out_what_all_players_add(values: Games) -> None:
    total = shapley_values(moebius(values)).sum()
    assert total == pytest.approx(values[-1] - values[0], abs=1e-8)


@settings(max_examples=30)
@given(small_games, st.data())
def test_interactions_are_weighted_discrete_derivatives(values: Games, data: st.DataObject) -> None:
    n = len(values).bit_length() - 1
    order = data.draw(st.integers(1, n))
    found = shapley_interactions(moebius(values), order)
    for place, s in enumerate(coalitions_of(n, order)):
        rest = [player for player in range(n) if not s >> player & 1]
        expected = 0.0
        for size in range(len(rest) + 1):
            for chosen in combinations(rest, size):
                t = sum(1 << player for player in chosen)
                parts = (part for part in range(int(s) + 1) if part & ~int(s) == 0)
                derivative = sum(
                    (-1) ** ((int(s) ^ part).bit_count()) * values[t | part] for part in parts
                )
                weight = (n - order + 1) * comb(n - order, size)
                expected += derivative / weight
        assert found[place] == pytest.approx(expected, abs=1e-7)


RECORDED = [
    (record["values"], order, record[f"interactions_{order}"])
    for record in SHAPIQ["one_set"]
    for order in (1, 2)
    if f"interactions_{order}" in record
]


def test_the_record_covers_both_orders() -> None:
    assert [order for _, order, _ in RECORDED] == [1, *7 * [1, 2]]


@pytest.mark.parametrize(("values", "order", "wanted"), RECORDED)
def test_equals_shapiq(values: list[float], order: int, wanted: dict[str, float]) -> None:
    n = len(values).bit_length() - 1
    found = shapley_interactions(moebius(values), order)
    expected = [wanted[str(mask)] for mask in coalitions_of(n, order)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_many_games_at_once() -> None:
    values = moebius(np.random.default_rng(0).normal(size=(4, 3, 2**6)))
    assert shapley_values(values).shape == (4, 3, 6)
    assert shapley_interactions(values, 3).shape == (4, 3, 20)


def test_an_and_is_shared_evenly() -> None:
    assert shapley_values(moebius([0, 0, 0, 1])).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("order", [0, 4])
def test_refuses_an_order_no_coalition_has(order: int) -> None:
    with pytest.raises(InputError, match="1 to 3 of them"):
        shapley_interactions(np.zeros(8), order)
