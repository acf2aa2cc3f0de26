from __future__ import annotations

import dataclasses
import json
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from contrapose.data import Example, ImageRef
from contrapose.diagnose.explain import TypedWords
from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.games import play_games
from contrapose.diagnose.metrics import (
    FAMILIES,
    METRIC_KEYS,
    MetricFamily,
    MetricPattern,
    build_comparisons,
    diagnose_blocks,
)
from contrapose.diagnose.words import TaggerWords
from contrapose.engine import ScoringContext
from contrapose.errors import InputError
from contrapose.models import load_model
from contrapose.models.masking.text import MaskedText
from tests.diagnose.scorers import (
    additive,
    bag_of_words,
    conjunction,
    number,
    play,
    present,
    random,
)
from tests.fakes import Patch

FEW = 200


def test_metric_keys() -> None:
    assert (
        *("Q_O", "Q_R", "Q_A", "Q_R&O", "Q_A&O"),
        *("D_O1", "D_O2", "D_O1&O2"),
        *("Q_T:R&O->I:O1", "Q_T:R&O->I:O2", "Q_T:R&O->I:O1&O2"),
        *("D_I:O1&O2->T:R", "D_I:O1&O2->T:O", "D_I:O1&O2->T:R&O"),
    ) == METRIC_KEYS


def dividend(block: GameBlock, cell: tuple[int, int, int], pattern: MetricPattern) -> float:
    """The definition, term by term; all players of a side that is not looked at are present."""
    image = set(block.image_players) if pattern.image is None else set(pattern.image.split("&"))
    text = set(block.text_players) if pattern.text is None else set(pattern.text.split("&"))
    total = 0.0
    sides = product(range(block.values.shape[3]), range(block.values.shape[4]))
    for s, t in sides:
        regions, words = present(block.image_players, s), present(block.text_players, t)
        if (pattern.image is None and regions != image) or (pattern.text is None and words != text):
            continue
        if regions <= image and words <= text:
            sign = (-1) ** (len(image - regions) + len(text - words))
            total += sign * float(block.values[*cell, s, t])
    return total


def by_definition(
    block: GameBlock, family: MetricFamily
) -> dict[str, list[tuple[float, float, float]]]:
    """Sensitivity, dividend difference and reward difference of every comparison."""
    found: dict[str, list[tuple[float, float, float]]] = {key: [] for key in family.keys}
    k, m, n = block.match.shape
    for e in range(k):
        kept, exchanged = (m, n) if family.exchanged == "captions" else (n, m)
        for fixed, right, wrong in product(range(kept), range(exchanged), range(exchanged)):
            cells = [
                (e, fixed, other) if family.exchanged == "captions" else (e, other, fixed)
                for other in (right, wrong)
            ]
            if not block.match[cells[0]] or block.match[cells[1]]:
                continue
            w = {p.key: [dividend(block, cell, p) for cell in cells] for p in family.patterns}
            z = float(np.mean([value**2 for pair in w.values() for value in pair]))
            reward = block.values[*cells[0], -1, -1] - block.values[*cells[1], -1, -1]
            for key, (first, second) in w.items():
                found[key].append(((first - second) ** 2 / z, first - second, reward))
    return found


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 4)])
def test_all_fourteen_by_definition(family: MetricFamily, shape: tuple[int, int]) -> None:
    block = play(random, 5, images=shape[0], texts=shape[1], words=("O", "R", "A"))
    diagnosis = diagnose_blocks([block], resamples=FEW)
    for key, rows in by_definition(block, family).items():
        found = diagnosis.metrics[key]
        sensitivity, changes, rewards = np.array(rows).T
        assert found.side == family.side
        assert found.n == len(rows)
        assert found.examples == 5
        assert found.value == pytest.approx(sensitivity.mean(), rel=1e-9)
        assert found.rho == pytest.approx(stats.pearsonr(rewards, changes).statistic, abs=1e-9)
        assert found.accuracy == pytest.approx((rewards > 0).mean())
        assert all("no interval" in note for note in found.notes)
        place = family.keys.index(key)
        compared = diagnosis.comparisons[family.name]
        np.testing.assert_allclose(compared.sensitivities[:, place], sensitivity, rtol=1e-9)


def test_an_additive_scorer_has_no_interaction() -> None:
    metrics = diagnose_blocks([play(additive)], resamples=FEW).metrics
    for key in ("Q_R&O", "D_O1&O2"):
        assert metrics[key].value == pytest.approx(0, abs=1e-20)
    for key in ("Q_O", "Q_R", "D_O1", "D_O2"):
        mean = metrics[key].value
        assert mean is not None
        assert mean > 0.1
    for key in METRIC_KEYS[8:]:
        assert metrics[key].value is None
        assert metrics[key].notes[0].startswith("24 of 24 comparisons are not in the mean: no ")


def test_conjunction_has_interaction_only() -> None:
    metrics = diagnose_blocks([play(conjunction)], resamples=FEW).metrics
    for whole, parts in (
        ("Q_R&O", ("Q_O", "Q_R")),
        ("D_O1&O2", ("D_O1", "D_O2")),
        ("Q_T:R&O->I:O1&O2", ("Q_T:R&O->I:O1", "Q_T:R&O->I:O2")),
        ("D_I:O1&O2->T:R&O", ("D_I:O1&O2->T:R", "D_I:O1&O2->T:O")),
    ):
        wrong = np.array([0.1 * abs(number(k)) for k in range(12)])
        expected = (6 * (1 - wrong) ** 2 / (1 + wrong**2)).mean()
        assert metrics[whole].value == pytest.approx(expected)
        assert metrics[whole].rho == pytest.approx(1)
        assert metrics[whole].accuracy == 1
        for part in parts:
            assert metrics[part].value == 0
            assert metrics[part].rho is None
            assert metrics[part].notes == (
                "ρ is undefined: the differences of the dividend do not vary.",
            )


def test_a_bag_of_words_does_not_react_to_a_swap() -> None:
    metrics = diagnose_blocks([play(bag_of_words)], resamples=FEW).metrics
    for key in ("Q_O", "Q_R", "Q_R&O"):
        assert metrics[key].value == 0
        assert metrics[key].ci95 == (0, 0)
        assert metrics[key].accuracy == 0
        assert metrics[key].notes == ("ρ is undefined: the differences of the score do not vary.",)
    assert metrics["D_O1"].n == 24


@pytest.mark.parametrize("score", [0.0, 0.1])
def test_constant_scorer_is_undefined(score: float) -> None:
    metrics = diagnose_blocks([play(lambda *_: score)], resamples=FEW).metrics
    assert {metric.value for metric in metrics.values()} == {None}
    assert metrics["Q_O"].n == 24
    assert "24 of 24" in metrics["Q_O"].notes[0]
    assert "ρ is undefined" in metrics["Q_O"].notes[1]


def test_missing_players() -> None:
    diagnosis = diagnose_blocks([play(random, words=("O", "A"), regions=())], resamples=FEW)
    absent = diagnosis.metrics["Q_T:R&O->I:O1"]
    assert (absent.n, absent.examples, absent.value, absent.ci95, absent.rho) == (
        0,
        0,
        *3 * [None],
    )
    assert absent.notes == ("no example has the players R and O with O1.",)
    assert diagnosis.metrics["Q_R"].notes == ("no example has the players R.",)
    assert diagnosis.metrics["Q_A&O"].n == 24


def test_blocks_with_other_players_are_combined() -> None:
    with_r, with_a = play(random, 6), play(random, 4, words=("O", "A"), start=6)
    both = diagnose_blocks([with_r, with_a], resamples=FEW).metrics
    assert (both["Q_R"].n, both["Q_A"].n, both["Q_O"].n) == (12, 8, 20)
    alone = diagnose_blocks([with_a], resamples=FEW).metrics
    assert both["Q_A&O"].value == pytest.approx(alone["Q_A&O"].value)
    assert both["Q_A&O"].rho == pytest.approx(alone["Q_A&O"].rho)
    assert both["Q_A&O"].accuracy == pytest.approx(alone["Q_A&O"].accuracy)


def test_side_that_was_not_scored() -> None:
    block = play(random)
    values = block.values.copy()
    values[:, :, :, :-1, :] = np.nan
    text_only = dataclasses.replace(block, values=values)
    metrics = diagnose_blocks([text_only], resamples=FEW).metrics
    assert metrics["Q_R&O"] == diagnose_blocks([block], resamples=FEW).metrics["Q_R&O"]
    for key in METRIC_KEYS[5:]:
        assert metrics[key].n == 0
        assert metrics[key].notes == ("its scores were not asked.",)


def test_coalitions_that_no_pattern_needs_may_be_missing() -> None:
    block = play(random, words=("O", "R", "A"))
    values = block.values.copy()
    values[..., 0b110] = np.nan
    assert (
        diagnose_blocks([dataclasses.replace(block, values=values)], resamples=FEW).metrics
        == diagnose_blocks([block], resamples=FEW).metrics
    )


def test_one_image_has_no_image_side() -> None:
    metrics = diagnose_blocks([play(random, images=1)], resamples=FEW).metrics
    assert metrics["Q_O"].n == 12
    assert metrics["D_O1"].notes == ("no example has both right and wrong images.",)


def test_no_games_at_all() -> None:
    for block in ([], [play(random, 0)]):
        metrics = diagnose_blocks(block, resamples=FEW).metrics
        assert tuple(metrics) == METRIC_KEYS
        assert {metric.n for metric in metrics.values()} == {0}


def test_examples_that_share_an_image_are_drawn_together() -> None:
    block = play(random, 40, images=1)
    apart = diagnose_blocks([block], resamples=2000).metrics["Q_O"]
    shared = dataclasses.replace(block, images=tuple((str(k // 2),) for k in range(40)))
    together = diagnose_blocks([shared], resamples=2000).metrics["Q_O"]
    assert together.value == apart.value
    assert together.ci95 is not None
    assert together.ci95 != apart.ci95
    one = dataclasses.replace(block, images=40 * (("one",),))
    alone = diagnose_blocks([one], resamples=FEW).metrics["Q_O"]
    assert (alone.value, alone.ci95, alone.rho_ci95) == (apart.value, None, None)
    assert "one image" in alone.notes[0]
    nine = dataclasses.replace(block, images=tuple((str(k % 9),) for k in range(40)))
    few = diagnose_blocks([nine], resamples=FEW).metrics["Q_O"]
    assert (few.ci95, few.rho_ci95, few.accuracy_ci95) == (None, None, None)
    assert "9 images" in few.notes[0]


def test_values_are_valid_json() -> None:
    for scorer in (random, additive, bag_of_words, conjunction):
        metrics = diagnose_blocks([play(scorer)], resamples=FEW).metrics
        for metric in metrics.values():
            json.dumps(metric.model_dump(mode="json"), allow_nan=False)


def test_the_same_seed_gives_the_same_numbers() -> None:
    block = [play(random)]
    assert (
        diagnose_blocks(block, resamples=FEW).metrics
        == diagnose_blocks(block, resamples=FEW).metrics
    )


def test_refuses_infinite_scores() -> None:
    with pytest.raises(InputError, match="infinite"):
        diagnose_blocks([play(lambda *_: float("inf"))], resamples=FEW)


TEXT = FAMILIES[0]


@pytest.fixture(scope="module")
def tiny() -> Any:
    return load_model("tiny-clip")


def example(*texts: str) -> Example:
    ref = ImageRef("1", source=Patch((40, 9, 200)))
    return Example("7", (ref,), texts, (tuple(j == 0 for j in range(len(texts))),))


def play_one(model: Any, one: Example, words: Any = None) -> Any:
    finder = words or TaggerWords()
    return play_games(ScoringContext(model), "itc", [one], finder, None, side="text")


def test_added_attribute_has_dividend_zero_in_the_caption_without(tiny: Any) -> None:
    one = example("a cube behind a ball", "a red cube behind a ball")
    compared = build_comparisons(play_one(tiny, one), TEXT)
    assert compared.present.tolist() == [[True] * 5]
    columns = {key: i for i, key in enumerate(TEXT.keys)}
    for key in ("Q_A", "Q_A&O"):
        assert compared.dividends[0, 0, columns[key]] == 0.0
        assert compared.dividends[0, 1, columns[key]] != 0.0

    def v(*hidden: tuple[int, int]) -> float:
        text = MaskedText(one.texts[1], hidden) if hidden else one.texts[1]
        image = tiny.embed_images(Patch.open_many([Patch((40, 9, 200))]))
        return float((image.double() * tiny.embed_texts([text]).double()).sum())

    red, objects, relation = (2, 5), ((6, 10), (20, 24)), (11, 17)
    only_red, nothing = v(*objects, relation), v(red, *objects, relation)
    assert compared.dividends[0, 1, columns["Q_A"]] == pytest.approx(only_red - nothing, abs=1e-6)
    metrics = diagnose_blocks(play_one(tiny, one), resamples=10).metrics
    w = compared.dividends[0]
    assert metrics["Q_A"].value == pytest.approx(w[1, columns["Q_A"]] ** 2 / np.mean(w**2))


def test_a_group_that_neither_of_the_two_has_is_absent(tiny: Any) -> None:
    """Of three captions only the last has an attribute: the first two are not compared by it."""
    one = example("a cube behind a ball", "a cone behind a ball", "a red cube behind a ball")
    compared = build_comparisons(play_one(tiny, one), TEXT)
    attribute = TEXT.keys.index("Q_A")
    assert compared.wrong.tolist() == [1, 2]
    assert compared.present[:, attribute].tolist() == [False, True]
    assert np.isnan(compared.sensitivities[0, attribute])


def test_an_interaction_needs_one_caption_with_both_groups(tiny: Any) -> None:
    one, words = example("a cube and a ball", "red or blue"), TypedWords.read("O=cube,ball;A=red")
    compared = build_comparisons(play_one(tiny, one, words), TEXT)
    present = dict(zip(TEXT.keys, compared.present[0].tolist(), strict=True))
    assert present == {"Q_O": True, "Q_R": False, "Q_A": True, "Q_R&O": False, "Q_A&O": False}
    metric = diagnose_blocks(play_one(tiny, one, words), resamples=10).metrics["Q_A&O"]
    assert "no example has the players A and O" in metric.notes[0]
