"""Where a score lies: in single players, or only in all of them together."""

from __future__ import annotations

import pytest

from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.metrics import METRIC_KEYS, Diagnosis, diagnose_blocks
from contrapose.diagnose.schema import compare_diagnoses, order_shares
from tests.diagnose.scorers import additive, bag_of_words, conjunction, play, random


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


FEW_DIFFERENCES = 400
NAMES = ("bag", "and")


def diagnose(*played: GameBlock) -> Diagnosis:
    return diagnose_blocks(played, resamples=FEW_DIFFERENCES)


def test_two_models_that_differ() -> None:
    bag, conj = diagnose(play(bag_of_words, 30)), diagnose(play(conjunction, 30))
    change = compare_diagnoses(bag, conj, NAMES, resamples=FEW_DIFFERENCES)
    by_key = {test.metric: test for test in change.tests}
    assert list(by_key) == [key for key in METRIC_KEYS if key in by_key]
    test = by_key["Q_R&O"]
    assert test.first == 0
    assert test.second == pytest.approx(conj.metrics["Q_R&O"].value)
    assert test.difference == pytest.approx(test.second)
    assert test.p_holm < 0.05
    assert by_key["Q_O"].p_holm == 1
    assert change.n == 60
    assert change.sentence.startswith("and differs from bag in Q_R&O (")
    assert "no difference is shown in Q_O and Q_R" in change.sentence
    assert change.sentence.endswith("; on up to 60 comparisons that both have, p after Holm.")


def test_scores_of_another_scale_are_not_another_model() -> None:
    plain = diagnose(play(random, 20))
    scaled = diagnose(play(lambda *cell: 100 * random(*cell), 20))
    change = compare_diagnoses(plain, scaled, ("plain", "scaled"), resamples=FEW_DIFFERENCES)
    assert {test.p_holm for test in change.tests} == {1.0}
    assert change.sentence.startswith("scaled is not shown to differ from plain in any metric, ")


def test_models_are_paired_by_example_in_any_order() -> None:
    whole = diagnose(play(additive, 20))
    blocks = diagnose(play(additive, 8, start=12), play(additive, 10))
    change = compare_diagnoses(whole, blocks, ("one", "two"), resamples=FEW_DIFFERENCES)
    assert change.n == 36
    assert max(abs(test.difference) for test in change.tests) == pytest.approx(0, abs=1e-12)


def test_no_examples_in_common() -> None:
    change = compare_diagnoses(
        diagnose(play(random, 4)),
        diagnose(play(random, 4, start=4)),
        NAMES,
        resamples=FEW_DIFFERENCES,
    )
    assert change.tests == ()
    assert change.sentence == "bag and and have no comparisons in common to tell them apart by."
