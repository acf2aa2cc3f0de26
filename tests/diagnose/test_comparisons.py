"""Comparisons: a group that only one caption has counts, with dividend 0 in the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from contrapose.data import Example, ImageRef
from contrapose.diagnose.comparisons import build_comparisons
from contrapose.diagnose.explain import TypedWords
from contrapose.diagnose.games import play_games
from contrapose.diagnose.metrics import FAMILIES
from contrapose.diagnose.sensitivity import diagnose_blocks
from contrapose.diagnose.words import TaggerWords
from contrapose.engine import ScoringContext
from contrapose.models import load_model
from contrapose.models.masking.text import MaskedText
from tests.fakes import Patch

TEXT = FAMILIES[0]


@pytest.fixture(scope="module")
def tiny() -> Any:
    return load_model("tiny-clip")


def example(*texts: str) -> Example:
    ref = ImageRef("1", source=Patch((40, 9, 200)))
    return Example("7", (ref,), texts, (tuple(j == 0 for j in range(len(texts))),))


def play(model: Any, one: Example, words: Any = None) -> Any:
    finder = words or TaggerWords()
    return play_games(ScoringContext(model), "itc", [one], finder, None, side="text")


def test_added_attribute_has_dividend_zero_in_the_caption_without(tiny: Any) -> None:
    one = example("a cube behind a ball", "a red cube behind a ball")
    compared = build_comparisons(play(tiny, one), TEXT)
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
    metrics = diagnose_blocks(play(tiny, one), resamples=10).metrics
    w = compared.dividends[0]
    assert metrics["Q_A"].mean == pytest.approx(w[1, columns["Q_A"]] ** 2 / np.mean(w**2))


def test_a_group_that_neither_of_the_two_has_is_absent(tiny: Any) -> None:
    """Of three captions only the last has an attribute: the first two are not compared by it."""
    one = example("a cube behind a ball", "a cone behind a ball", "a red cube behind a ball")
    compared = build_comparisons(play(tiny, one), TEXT)
    attribute = TEXT.keys.index("Q_A")
    assert compared.wrong.tolist() == [1, 2]
    assert compared.present[:, attribute].tolist() == [False, True]
    assert np.isnan(compared.sensitivities[0, attribute])


def test_an_interaction_needs_one_caption_with_both_groups(tiny: Any) -> None:
    one, words = example("a cube and a ball", "red or blue"), TypedWords.read("O=cube,ball;A=red")
    compared = build_comparisons(play(tiny, one, words), TEXT)
    present = dict(zip(TEXT.keys, compared.present[0].tolist(), strict=True))
    assert present == {"Q_O": True, "Q_R": False, "Q_A": True, "Q_R&O": False, "Q_A&O": False}
    metric = diagnose_blocks(play(tiny, one, words), resamples=10).metrics["Q_A&O"]
    assert "no example has the players A and O" in metric.notes[0]
