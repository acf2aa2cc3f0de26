"""Hard positives against plain comparisons."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import augmented, brittle, mean_score, original


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=20))
def test_against_the_definitions(rows: list[tuple[int, int, int]]) -> None:
    scores = np.array(rows, dtype=float)
    assert original(scores).values.tolist() == [float(c > n) for c, n, _ in rows]
    assert augmented(scores).values.tolist() == [float(c > n and p > n) for c, n, p in rows]
    assert brittle(scores).values.tolist() == [float(c > n > p or p > n > c) for c, n, p in rows]
    assert mean_score(scores).values.tolist() == [float(c) for c, _, _ in rows]
    assert original(scores).ties.tolist() == [c == n for c, n, _ in rows]
    assert augmented(scores).ties.tolist() == [n in (c, p) for c, n, p in rows]
    assert brittle(scores).ties.tolist() == [n in (c, p) for c, n, p in rows]


@pytest.mark.parametrize("metric", [original, augmented, brittle])
def test_chance_is_the_share_of_orderings(metric: object) -> None:
    assert callable(metric)
    orders = np.array(list(itertools.permutations(range(3))), dtype=float)
    outcome = metric(orders)
    assert outcome.chance == pytest.approx(outcome.values.mean())


@given(st.integers(0, 2**32 - 1))
def test_augmented_and_brittle_exclude_each_other(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(50, 3))
    assert not (augmented(scores).values * brittle(scores).values).any()
    # Right on the original but not on both is brittle: p then lies below n.
    lost = original(scores).values - augmented(scores).values
    assert (brittle(scores).values >= lost).all()


def test_mean_score_has_no_chance() -> None:
    assert mean_score(np.zeros((2, 3))).chance is None


def test_three_captions_are_needed() -> None:
    with pytest.raises(InputError, match="any × 3"):
        original(np.zeros((2, 2)))
