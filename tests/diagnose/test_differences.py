from __future__ import annotations

import pytest

from contrapose.diagnose.differences import difference
from contrapose.diagnose.fourteen import KEYS
from contrapose.diagnose.played import Played
from contrapose.diagnose.sensitivity import Diagnosis, diagnose_played
from tests.diagnose.scorers import additive, bag_of_words, conjunction, play, random

FEW = 400
NAMES = ("bag", "and")


def diagnosed(*played: Played) -> Diagnosis:
    return diagnose_played(played, resamples=FEW)


def test_two_models_that_differ() -> None:
    bag, conj = diagnosed(play(bag_of_words, 30)), diagnosed(play(conjunction, 30))
    found = difference(bag, conj, NAMES, resamples=FEW)
    by_key = {test.key: test for test in found.tests}
    assert list(by_key) == [key for key in KEYS if key in by_key]
    test = by_key["Q_R&O"]
    assert test.first == 0
    assert test.second == pytest.approx(conj.metrics["Q_R&O"].mean)
    assert test.difference == pytest.approx(test.second)
    assert test.p < 0.05
    assert by_key["Q_O"].p == 1
    assert found.count == 60
    assert found.sentence.startswith("and differs from bag in Q_R&O (")
    assert "no difference is shown in Q_O and Q_R" in found.sentence
    assert found.sentence.endswith("; on up to 60 comparisons that both have, p after Holm.")


def test_scores_of_another_scale_are_not_another_model() -> None:
    plain = diagnosed(play(random, 20))
    scaled = diagnosed(play(lambda *cell: 100 * random(*cell), 20))
    found = difference(plain, scaled, ("plain", "scaled"), resamples=FEW)
    assert {test.p for test in found.tests} == {1.0}
    assert found.sentence.startswith("scaled is not shown to differ from plain in any metric, ")


def test_they_are_paired_by_example_whatever_the_order() -> None:
    whole = diagnosed(play(additive, 20))
    blocks = diagnosed(play(additive, 8, start=12), play(additive, 10))
    found = difference(whole, blocks, ("one", "two"), resamples=FEW)
    assert found.count == 36
    assert max(abs(test.difference) for test in found.tests) == pytest.approx(0, abs=1e-12)


def test_no_examples_in_common() -> None:
    found = difference(
        diagnosed(play(random, 4)), diagnosed(play(random, 4, start=4)), NAMES, resamples=FEW
    )
    assert found.tests == ()
    assert found.sentence == "bag and and have no comparisons in common to tell them apart by."
