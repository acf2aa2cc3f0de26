from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from contrapose.diagnose.findings import (
    CLAIMS,
    NOISE_PERCENT,
    Finding,
    derive_findings,
)
from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.metrics import METRIC_KEYS, diagnose_blocks
from contrapose.metrics import clusters_of, holm, mean_of, paired_bootstrap
from tests.diagnose.scorers import additive, bag_of_words, conjunction, play, random

FEW_FINDINGS = 1000


def findings_of(*played: GameBlock) -> dict[str, Finding]:
    diagnosis = diagnose_blocks(played, resamples=FEW_FINDINGS)
    return {one.interaction: one for one in derive_findings(diagnosis, resamples=FEW_FINDINGS)}


def test_claims_are_about_metrics_of_their_family() -> None:
    for claim in CLAIMS:
        assert {claim.interaction, *claim.parts} <= set(claim.family.keys) <= set(METRIC_KEYS)


def test_a_conjunction_dominates_on_every_side() -> None:
    all_found = findings_of(play(conjunction, 30))
    for key in ("Q_R&O", "D_O1&O2", "Q_T:R&O->I:O1&O2", "D_I:O1&O2->T:R&O"):
        one = all_found[key]
        assert one.verdict == "dominates"
        assert one.share == 1
        assert (one.n, one.examples) == (60, 30)
        assert all(test.p_holm < 0.05 and test.difference > 0 for test in one.tests)
    assert all_found["Q_R&O"].side == "text"
    assert all_found["D_I:O1&O2->T:R&O"].side == "mutual"


def test_the_sentence_has_the_numbers() -> None:
    sentence = findings_of(play(conjunction, 30))["Q_R&O"].sentence
    assert sentence.startswith(
        "text side: the interaction of relation and object words dominates, as it should when "
        "objects change places: Q_R&O = "
    )
    assert ", 100 % of the three (noise: 50 %), against Q_O = 0 (difference +" in sentence
    assert sentence.endswith("; 60 comparisons of 30 examples, p after Holm.")


def test_a_finding_has_the_accuracy_of_its_comparisons() -> None:
    block = play(conjunction, 30)
    one = findings_of(block)["Q_R&O"]
    assert one.accuracy == 1
    assert not one.is_right_by_chance
    assert "chance" not in one.sentence
    backwards = findings_of(replace(block, values=-block.values))["Q_R&O"]
    assert backwards.verdict == "dominates"
    assert backwards.accuracy == 0
    assert backwards.is_right_by_chance
    assert "right in 0 %" in backwards.sentence
    assert "no more than chance" in backwards.sentence


def test_an_additive_scorer_is_dominated_by_its_parts() -> None:
    one = findings_of(play(additive, 30))["Q_R&O"]
    assert one.verdict == "does not dominate"
    assert one.share == pytest.approx(0)
    assert "does not dominate, though it should when objects change places" in one.sentence


def test_interaction_share_of_noise_is_about_one_half() -> None:
    tested = [one for one in findings_of(play(random, 150)).values() if one.verdict != "absent"]
    for one in tested:
        assert one.share == pytest.approx(NOISE_PERCENT / 100, abs=0.06)
        assert one.verdict == "undecided"
    # Noise exceeds each of its parts: that is not to dominate.
    assert any(
        all(test.is_significant and test.difference > 0 for test in one.tests[:2]) for one in tested
    )


def test_bag_of_words_is_undecided() -> None:
    one = findings_of(play(bag_of_words, 30))["Q_R&O"]
    assert one.verdict == "undecided"
    assert one.share is None
    assert [test.p_holm for test in one.tests] == [1, 1, 1]
    assert "is not shown to dominate" in one.sentence
    assert "of the three" not in one.sentence


def test_absent_finding_gives_the_reason() -> None:
    all_found = findings_of(play(random, 8))
    absent = all_found["Q_A&O"]
    assert absent.verdict == "absent"
    assert absent.sentence == (
        "text side: Q_A&O was not tested: no example has the players A and O."
    )
    one = play(random, 1)
    assert findings_of(one)["Q_R&O"].sentence.endswith("share one image, fewer than 10.")
    assert [finding.verdict for finding in findings_of().values()] == 5 * ["absent"]


def test_p_values_are_corrected_over_all_comparisons_of_a_model() -> None:
    played = play(random, 20, words=("O", "R", "A"))
    diagnosis = diagnose_blocks([played], resamples=FEW_FINDINGS)
    raw = []
    for claim in CLAIMS:
        compared = diagnosis.comparisons[claim.family.name]
        values = dict(zip(claim.family.keys, compared.sensitivities.T, strict=True))
        raw += [
            paired_bootstrap(
                mean_of(values[part]),
                mean_of(values[claim.interaction]),
                clusters_of([(id_,) for id_ in compared.ids]),
                FEW_FINDINGS,
            ).p
            for part in claim.parts
        ]
        first, second = (values[part] for part in claim.parts)
        raw.append(
            paired_bootstrap(
                mean_of(first + second),
                mean_of(values[claim.interaction]),
                clusters_of([(id_,) for id_ in compared.ids]),
                FEW_FINDINGS,
            ).p
        )
    ours = [
        test.p_holm
        for one in derive_findings(diagnosis, resamples=FEW_FINDINGS)
        for test in one.tests
    ]
    assert len(ours) == 15
    np.testing.assert_allclose(ours, holm(raw))


def test_only_comparisons_with_all_three_are_tested() -> None:
    with_r = play(conjunction, 10)
    without = play(random, 10, words=("O", "A"), start=10)
    one = findings_of(with_r, without)["Q_R&O"]
    assert (one.n, one.examples) == (20, 10)


def test_an_open_verdict_says_how_many_comparisons_would_settle_it() -> None:
    few = findings_of(play(lambda *a: conjunction(*a) + 3 * random(*a), 12))
    for one in few.values():
        if one.verdict == "undecided" and one.tests[-1].difference > 0:
            assert one.needed is not None
            assert one.needed > one.n
    known = findings_of(play(conjunction, 30))["Q_R&O"]
    assert known.needed is None
    assert known.accuracy_needed is None
    noise = [one for one in findings_of(play(random, 60)).values() if one.tests]
    assert any(one.accuracy_needed is not None for one in noise)
    for one in noise:  # above each part and below their sum, no number decides
        *parts, together = one.tests
        if together.difference <= 0 and all(test.difference >= 0 for test in parts):
            assert one.needed is None
