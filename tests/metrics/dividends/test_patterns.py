from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.metrics.dividends import pattern_mask, pattern_name


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
