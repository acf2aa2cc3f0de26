"""VALSE's numbers against its script's comparisons."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.metrics import (
    acc,
    augmented_accuracy,
    brittleness,
    mean_score,
    min_precision,
    official_mask,
    original_accuracy,
    original_only,
    p_c,
    p_f,
    pairwise_accuracy,
    positive_only,
)

PAIRS = st.lists(
    st.tuples(*[st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])] * 2), min_size=1, max_size=30
)


@given(PAIRS)
def test_foils_against_the_definitions(rows: list[tuple[float, float]]) -> None:
    scores = np.array(rows)
    assert pairwise_accuracy(scores).values.tolist() == [float(c > f) for c, f in rows]
    assert pairwise_accuracy(scores).ties.tolist() == [c == f for c, f in rows]
    assert p_c(scores).values.tolist() == [float(c > 0.5) for c, _ in rows]
    assert p_f(scores).values.tolist() == [float(f < 0.5) for _, f in rows]
    assert p_f(scores).ties.tolist() == [f == 0.5 for _, f in rows]
    assert acc(scores).values.tolist() == [((c > 0.5) + (f < 0.5)) / 2 for c, f in rows]
    lesser = min(np.mean([c > 0.5 for c, _ in rows]), np.mean([f < 0.5 for _, f in rows]))
    assert min_precision(scores).value() == pytest.approx(lesser)


@given(PAIRS)
def test_the_released_script(rows: list[tuple[float, float]]) -> None:
    """Items whose two foil logits are equal are dropped throughout; then `>=` for the foil."""
    count = found = fits = detected = 0
    for c, f in rows:
        if f == 0.5:
            continue
        count += 1
        fits += c > 0.5
        detected += f <= 0.5
        found += (c > 0.5) + (f <= 0.5)
    scores = np.array(rows)
    kept = scores[official_mask(scores)]
    assert len(kept) == count
    if count:
        assert acc(kept, protocol="official").mean() == pytest.approx(found / count / 2)
        assert p_f(kept, protocol="official").mean() == pytest.approx(detected / count)
        assert p_c(kept).mean() == pytest.approx(fits / count)


def test_another_threshold() -> None:
    logits = np.array([[0.2, -0.1], [-0.3, 0.4]])
    assert p_c(logits, 0.0).values.tolist() == [1, 0]
    assert p_f(logits, 0.0).values.tolist() == [1, 0]


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(InputError, match="protocol"):
        p_f(np.zeros((1, 2)), protocol="loose")  # type: ignore[arg-type]


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=20))
def test_triples_against_the_definitions(rows: list[tuple[int, int, int]]) -> None:
    scores = np.array(rows, dtype=float)
    assert original_accuracy(scores).values.tolist() == [float(c > n) for c, n, _ in rows]
    assert augmented_accuracy(scores).values.tolist() == [
        float(c > n and p > n) for c, n, p in rows
    ]
    assert brittleness(scores).values.tolist() == [
        float(c > n > p or p > n > c) for c, n, p in rows
    ]
    assert mean_score(scores).values.tolist() == [float(c) for c, _, _ in rows]
    assert original_accuracy(scores).ties.tolist() == [c == n for c, n, _ in rows]
    assert augmented_accuracy(scores).ties.tolist() == [n in (c, p) for c, n, p in rows]
    assert original_only(scores).values.tolist() == [c > n > p for c, n, p in rows]
    assert positive_only(scores).values.tolist() == [p > n > c for c, n, p in rows]
    assert brittleness(scores).ties.tolist() == [n in (c, p) for c, n, p in rows]


@pytest.mark.parametrize("metric", [original_accuracy, augmented_accuracy, brittleness])
def test_chance_is_the_share_of_orderings(metric: object) -> None:
    assert callable(metric)
    orders = np.array(list(itertools.permutations(range(3))), dtype=float)
    outcome = metric(orders)
    assert outcome.chance == pytest.approx(outcome.values.mean())


@given(st.integers(0, 2**32 - 1))
def test_augmented_and_brittle_exclude_each_other(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(50, 3))
    assert not (augmented_accuracy(scores).values * brittleness(scores).values).any()
    # Right on the original but not on both is brittle: p then lies below n.
    lost = original_accuracy(scores).values - augmented_accuracy(scores).values
    assert (brittleness(scores).values >= lost).all()


def test_mean_score_has_no_chance() -> None:
    assert mean_score(np.zeros((2, 3))).chance is None


def test_three_captions_are_needed() -> None:
    with pytest.raises(InputError, match="any × 3"):
        original_accuracy(np.zeros((2, 2)))
