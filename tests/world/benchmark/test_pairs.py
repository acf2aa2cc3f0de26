from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from contrapose.world.benchmark.arrangement import is_valid
from contrapose.world.benchmark.candidates import Form
from contrapose.world.benchmark.pairs import LOCATIONS, ScenePair, relocate
from contrapose.world.captions.words import RELATION_WORDS
from contrapose.world.sample import sample_scene
from contrapose.world.scene import OPPOSITE


@cache
def location_pairs(form: Form) -> list[ScenePair]:
    made = (relocate(sample_scene(5, i, form), np.random.default_rng(i)) for i in range(500))
    return [pair for pair in made if pair is not None]


@pytest.mark.parametrize("form", ["balanced", "skewed"])
def test_location_draws_any_two_locations(form: Form) -> None:
    pairs = location_pairs(form)
    said = Counter(frozenset((p.caption.relation, p.other_caption.relation)) for p in pairs)
    assert set(said) == set(map(frozenset, combinations(LOCATIONS, 2)))
    opposite = sum(OPPOSITE[p.caption.relation] == p.other_caption.relation for p in pairs)  # type: ignore[index]
    assert 0.1 < opposite / len(pairs) < 0.35  # a fifth if every two were as frequent
    assert min(said.values()) > 0.03 * len(pairs)


def test_each_location_is_true_of_its_scene_alone() -> None:
    for pair in location_pairs("balanced"):
        assert pair.holds
        assert is_valid(pair.scene)
        assert is_valid(pair.other_scene)
        assert pair.tags["relation"] == (pair.caption.relation, pair.other_caption.relation)


def test_the_captions_differ_in_the_location_alone() -> None:
    for pair in location_pairs("balanced"):
        first, second = (
            (c.kind, c.mentions, c.template) for c in (pair.caption, pair.other_caption)
        )
        assert first == second


def test_opposite_locations_have_matching_words() -> None:
    matched = 0
    for pair in location_pairs("balanced"):
        one, other = pair.caption, pair.other_caption
        if {one.relation, other.relation} == {"left of", "right of"}:
            texts = [RELATION_WORDS[c.relation][c.relation_word].text for c in (one, other)]  # type: ignore[index]
            assert texts[0].replace("left", "right") == texts[1].replace("left", "right")
            matched += 1
    assert matched
