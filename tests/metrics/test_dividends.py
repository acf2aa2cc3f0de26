from __future__ import annotations

import json
from itertools import combinations, permutations, product
from math import comb, factorial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from contrapose.errors import InputError
from contrapose.metrics.dividends import (
    MOST_PLAYERS,
    coalitions_of,
    dividends,
    moebius,
    pattern_mask,
    pattern_name,
    shapley_interactions,
    shapley_values,
    zeta,
)


@pytest.mark.parametrize(
    ("players", "coalition", "name"),
    [
        (("O", "R"), 0b11, "R&O"),
        (("O", "R", "A"), 0b101, "A&O"),
        (("O", "R", "A"), 0b111, "R&A&O"),
        (("O1", "O2"), 0b11, "O1&O2"),
        (("O1", "O2"), 0b10, "O2"),
        (("O", "R"), 0, "∅"),
    ],
)
def test_is_spelt_as_the_metrics_are(players: tuple[str, ...], coalition: int, name: str) -> None:
    assert pattern_name(players, coalition) == name


@given(st.integers(0, 15), st.permutations(["O", "R", "A", "O1"]))
def test_a_name_finds_its_coalition(coalition: int, players: list[str]) -> None:
    assert pattern_mask(players, pattern_name(players, coalition)) == coalition


def test_a_pattern_whose_player_is_missing_has_none() -> None:
    assert pattern_mask(("O", "A"), "R&O") is None


GamesShapley = NDArray[np.float64]

SHAPIQ_SHAPLEY = json.loads((Path(__file__).parent / "shapiq.json").read_text())

numbers_shapley = st.floats(-100, 100, width=32)
small_games = st.integers(1, 5).flatmap(
    lambda n: arrays(np.float64, 2**n, elements=numbers_shapley)
)


@settings(max_examples=30)
@given(small_games)
def test_is_the_mean_over_orders_of_arrival(values: GamesShapley) -> None:
    n = len(values).bit_length() - 1
    expected = np.zeros(n)
    for order in permutations(range(n)):
        present = 0
        for player in order:
            expected[player] += values[present | 1 << player] - values[present]
            present |= 1 << player
    assert shapley_values(moebius(values)) == pytest.approx(expected / factorial(n), abs=1e-8)


@given(small_games)
def test_values_share_out_what_all_players_add(values: GamesShapley) -> None:
    total = shapley_values(moebius(values)).sum()
    assert total == pytest.approx(values[-1] - values[0], abs=1e-8)


@settings(max_examples=30)
@given(small_games, st.data())
def test_interactions_are_weighted_discrete_derivatives(
    values: GamesShapley, data: st.DataObject
) -> None:
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
    for record in SHAPIQ_SHAPLEY["one_set"]
    for order in (1, 2)
    if f"interactions_{order}" in record
]


def test_the_record_covers_both_orders() -> None:
    assert [order for _, order, _ in RECORDED] == [1, *7 * [1, 2]]


@pytest.mark.parametrize(("values", "order", "wanted"), RECORDED)
def test_shapley_equals_shapiq(values: list[float], order: int, wanted: dict[str, float]) -> None:
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


GamesTransform = NDArray[np.float64]

SHAPIQ_TRANSFORM = json.loads((Path(__file__).parent / "shapiq.json").read_text())

players = st.integers(0, 6)
numbers_transform = st.floats(-100, 100, width=32)


@st.composite
def games(draw: st.DrawFn, count: int = 1) -> Any:
    n = draw(players)
    return draw(arrays(np.float64, (count, 2**n), elements=numbers_transform))


def by_definition(values: GamesTransform) -> GamesTransform:
    """The double loop over coalitions and their parts."""
    found = np.zeros_like(values)
    for s in range(len(values)):
        for part in range(len(values)):
            if part & ~s == 0:
                found[s] += (-1) ** ((s ^ part).bit_count()) * values[part]
    return found


def swapped(values: GamesTransform, i: int, j: int) -> GamesTransform:
    """The game in which players i and j have changed places."""
    n = len(values)
    masks = np.arange(n)
    bit_i, bit_j = masks >> i & 1, masks >> j & 1
    return np.asarray(values[masks ^ ((bit_i ^ bit_j) << i) ^ ((bit_i ^ bit_j) << j)])


@given(games())
def test_is_its_definition(values: GamesTransform) -> None:
    assert moebius(values)[0] == pytest.approx(by_definition(values[0]), abs=1e-9)


@pytest.mark.parametrize("record", SHAPIQ_TRANSFORM["one_set"])
def test_transform_equals_shapiq(record: dict[str, list[float]]) -> None:
    found = moebius(record["values"])
    np.testing.assert_allclose(found, record["dividends"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("record", SHAPIQ_TRANSFORM["two_sets"])
def test_equals_shapiq_between_two_sets_of_players(record: dict[str, list[float]]) -> None:
    found = dividends(record["values"])
    np.testing.assert_allclose(found, record["dividends"], rtol=0, atol=1e-9)


def test_the_record_covers_up_to_eight_players() -> None:
    assert [len(record["values"]) for record in SHAPIQ_TRANSFORM["one_set"]] == [
        2**n for n in range(1, 9)
    ]


@given(games())
def test_efficiency(values: GamesTransform) -> None:
    assert moebius(values).sum() == pytest.approx(values[0, -1], abs=1e-8)


@given(games(count=2), numbers_transform)
def test_linearity(pair: GamesTransform, factor: float) -> None:
    first, second = moebius(pair)
    assert moebius(pair[0] + factor * pair[1]) == pytest.approx(first + factor * second, abs=1e-6)


@given(games(), st.data(), numbers_transform)
def test_dummy(values: GamesTransform, data: st.DataObject, alone: float) -> None:
    n = values.shape[1].bit_length() - 1
    place = data.draw(st.integers(0, n))
    masks = np.arange(2 ** (n + 1))
    rest = (masks & ((1 << place) - 1)) | (masks >> (place + 1) << place)
    present = (masks >> place & 1).astype(bool)
    found = moebius(values[0][rest] + np.where(present, alone, 0.0))
    assert found[1 << place] == pytest.approx(alone, abs=1e-9)
    others = present & (masks != 1 << place)
    assert found[others] == pytest.approx(0.0, abs=1e-9)
    assert found[~present] == pytest.approx(moebius(values[0]), abs=1e-9)


@given(games(), st.data())
def test_symmetry(values: GamesTransform, data: st.DataObject) -> None:
    n = values.shape[1].bit_length() - 1
    if n < 2:
        return
    i, j = data.draw(st.permutations(range(n)))[:2]
    found = moebius(values[0] + swapped(values[0], i, j))
    for s in range(2**n):
        if not s >> i & 1 and not s >> j & 1:
            assert found[s | 1 << i] == pytest.approx(found[s | 1 << j], abs=1e-9)


@given(games(count=3))
def test_zeta_undoes_it(values: GamesTransform) -> None:
    assert zeta(moebius(values)) == pytest.approx(values, abs=1e-8)


@given(st.integers(0, 3), st.integers(0, 3), st.data())
def test_two_sets_by_definition(a: int, b: int, data: st.DataObject) -> None:
    values = data.draw(arrays(np.float64, (2**a, 2**b), elements=numbers_transform))
    found = dividends(values)
    for s, t in product(range(2**a), range(2**b)):
        expected = sum(
            (-1) ** ((s ^ s_part).bit_count() + (t ^ t_part).bit_count()) * values[s_part, t_part]
            for s_part, t_part in product(range(s + 1), range(t + 1))
            if s_part & ~s == 0 and t_part & ~t == 0
        )
        assert found[s, t] == pytest.approx(expected, abs=1e-9)


def test_many_games_and_players_at_once() -> None:
    values = np.random.default_rng(0).normal(size=(3, 50, 2**11))
    found = moebius(values)
    assert found.shape == values.shape
    np.testing.assert_array_equal(found[1, 7], moebius(values[1, 7]))
    assert found.sum(axis=-1) == pytest.approx(values[..., -1])


def test_the_values_given_stay_as_they_are() -> None:
    values = np.arange(8.0)
    moebius(values)
    np.testing.assert_array_equal(values, np.arange(8.0))


@pytest.mark.parametrize("games", [np.ones((0, 8)), np.ones((2, 0, 4))])
def test_no_games(games: GamesTransform) -> None:
    assert moebius(games).shape == games.shape


def test_a_game_laid_out_otherwise() -> None:
    values = np.random.default_rng(1).normal(size=(8, 6))
    np.testing.assert_array_equal(moebius(values.T), moebius(values.T.copy()))


def test_what_was_not_asked_spoils_its_supersets_alone() -> None:
    values = np.arange(8.0) ** 2
    values[0b110] = np.nan
    found = moebius(values)
    assert np.flatnonzero(np.isnan(found)).tolist() == [0b110, 0b111]
    np.testing.assert_array_equal(found[:6], moebius(np.arange(8.0) ** 2)[:6])


def test_whole_numbers_and_float32_become_float64() -> None:
    assert moebius([0, 1, 1, 1]).tolist() == [0, 1, 1, -1]
    assert moebius(np.zeros(4, dtype=np.float32)).dtype == np.float64
    assert moebius(np.zeros(4), dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros(4, dtype=np.float16), "not float16"),
        (np.zeros(4, dtype=np.complex128), "not complex128"),
        (np.zeros(6), "6 is no power of 2"),
        (np.zeros((2, 0)), "0 is no power of 2"),
        (1.0, "one number is none"),
        ([0.0, np.inf], "1 of 2 values are infinite"),
        (np.zeros(2**17), "17 players have 131072 coalitions; dividends are exact up to 16"),
    ],
)
def test_refuses(values: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        moebius(values)


def test_refuses_to_compute_in_half_precision() -> None:
    with pytest.raises(InputError, match="not float16"):
        moebius(np.zeros(4), dtype=np.float16)


def test_two_sets_count_together() -> None:
    with pytest.raises(InputError, match="17 players"):
        dividends(np.zeros((2 ** (MOST_PLAYERS - 3), 2**4)))
    with pytest.raises(InputError, match="6 is no power of 2"):
        dividends(np.zeros((2, 6)))
    with pytest.raises(InputError, match="two axes"):
        dividends(np.zeros(4))


def test_all_players_of_the_limit() -> None:
    values = np.zeros(2**MOST_PLAYERS)
    values[-1] = 1.0
    found = moebius(values)
    assert found[-1] == 1.0
    assert np.count_nonzero(found) == 1
