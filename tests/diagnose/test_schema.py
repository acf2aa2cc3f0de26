"""Where a score lies: in single players, or only in all of them together."""

from __future__ import annotations

import pytest

from contrapose.diagnose.schema import order_shares
from tests.diagnose.scorers import additive, conjunction, play


def test_additive_score_has_order_one_only() -> None:
    found = {(each.side, each.players): each for each in order_shares([play(additive, 5)])}
    assert found["text", 2].shares == pytest.approx((1.0, 0.0))
    assert found["image", 2].shares == pytest.approx((1.0, 0.0))
    assert found["text", 2].games == 20


def test_conjunction_has_the_highest_order_only() -> None:
    for each in order_shares([play(conjunction, 5)]):
        assert each.shares == pytest.approx((0.0, 1.0))


def test_games_without_players_are_omitted() -> None:
    found = order_shares([play(additive, 2, regions=())])
    assert [each.side for each in found] == ["text"]
