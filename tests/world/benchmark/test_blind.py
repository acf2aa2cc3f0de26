"""A language model that sees no image: at chance on the balanced form, above it on the skewed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from contrapose.data import EditSet, Gallery
from contrapose.world.benchmark.candidates import Form
from contrapose.world.benchmark.suite import part_data
from contrapose.world.captions import describe
from contrapose.world.sample import sample_scene

Blind = Callable[[str], float]


@pytest.fixture(scope="module")
def blind() -> Blind:
    """A smoothed bigram model of captions of the training world."""
    ones: Counter[str] = Counter()
    twos: Counter[tuple[str, str]] = Counter()
    for i in range(5000):
        caption = describe(sample_scene(99, i), np.random.default_rng((99, i)))
        if caption is not None:
            words = _words(caption.text)
            ones.update(words)
            twos.update(pairwise(words))
    total = sum(ones.values())

    def score(text: str) -> float:
        words = _words(text)
        pairs = list(pairwise(words))
        logs = (
            math.log((twos[a, b] + 5 * ones[b] / total + 1e-4) / (ones[a] + 5)) for a, b in pairs
        )
        return sum(logs) / len(pairs)

    return score


def test_the_prior_helps_on_the_skewed_form_alone(blind: Blind) -> None:
    parts = ("replace-color", "replace-shape", "swap-attribute", "replace-count")
    assert abs(_accuracy(blind, parts, "balanced") - 0.5) < 0.07
    assert _accuracy(blind, parts, "skewed") > 0.65


def test_the_prior_is_against_held_out_pairs(blind: Blind) -> None:
    assert _accuracy(blind, ("held-out",), "balanced") < 0.4


def _accuracy(blind: Blind, parts: tuple[str, ...], form: Form) -> float:
    hits = []
    for part in parts:
        data = part_data(part, form, 150, 11, 96)
        assert not isinstance(data, Gallery | EditSet)
        for example in data:
            right = example.match[0].index(True)
            hits.append(blind(example.texts[right]) > blind(example.texts[1 - right]))
    return float(np.mean(hits))


def _words(text: str) -> list[str]:
    return ["<", *text.replace(",", " ,").split(), ">"]
