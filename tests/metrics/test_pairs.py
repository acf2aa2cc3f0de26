"""Text, image and group score against plain loops, and what must not change them."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from contrapose.errors import InputError
from contrapose.metrics import (
    accuracy,
    equivariance,
    group_match,
    group_score,
    image_score,
    standardized_spread,
    text_score,
)

Scores = NDArray[np.floating[Any]]
Cells = NDArray[np.bool_]

DIAGONAL = np.eye(2, dtype=bool)


def rows_by_loop(scores: Scores, match: Cells, present: Cells, ties: str) -> tuple[bool, bool]:
    """One example's text score, comparison by comparison, and whether a deciding one ties."""
    won, tied, asked = True, False, False
    for i in range(scores.shape[0]):
        right = [scores[i, j] for j in range(scores.shape[1]) if present[i, j] and match[i, j]]
        wrong = [scores[i, j] for j in range(scores.shape[1]) if present[i, j] and not match[i, j]]
        if not right or not wrong:
            continue
        asked = True
        tied = tied or min(right) == max(wrong)
        for r in right:
            for w in wrong:
                won = won and (r > w or (ties == "right" and r == w))
    if not asked:
        raise LookupError
    return won, tied


@st.composite
def examples(draw: st.DrawFn) -> tuple[Scores, Cells, Cells]:
    """A few examples of one padded shape; small integers, so that ties are common."""
    k, m, n = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    cells = k * m * n
    numbers = draw(st.lists(st.integers(0, 4), min_size=cells, max_size=cells))
    flags = st.lists(st.booleans(), min_size=cells, max_size=cells)
    shape = (k, m, n)
    scores = np.array(numbers, dtype=np.float32).reshape(shape)
    present = np.array(draw(flags)).reshape(shape)
    scores[~present] = draw(st.sampled_from([np.nan, np.inf, 0.0]))
    return scores, np.array(draw(flags)).reshape(shape), present


@given(examples(), st.sampled_from(["wrong", "right"]))
def test_scores_agree_with_loops(given_: tuple[Scores, Cells, Cells], ties: Any) -> None:
    scores, match, present = given_
    s, m, p = (cells.transpose(0, 2, 1) for cells in (scores, match, present))
    sides: list[tuple[Any, Scores, Cells, Cells]] = [
        (text_score, scores, match, present),
        (image_score, s, m, p),  # type: ignore[list-item]
    ]
    found = []
    for function, s, m, p in sides:
        try:
            expected = [rows_by_loop(s[i], m[i], p[i], ties) for i in range(len(s))]
        except LookupError:
            with pytest.raises(InputError, match="tell apart"):
                function(scores, match, present, ties=ties)
            continue
        outcome = function(scores, match, present, ties=ties)
        assert outcome.values.tolist() == [float(won) for won, _ in expected]
        assert outcome.ties.tolist() == [tied for _, tied in expected]
        found.append(outcome)
    if len(found) == 2:
        both = group_score(scores, match, present, ties=ties)
        np.testing.assert_array_equal(both.values, found[0].values * found[1].values)
        np.testing.assert_array_equal(both.ties, found[0].ties | found[1].ties)


def test_winoground_by_the_paper() -> None:
    scores = np.array(
        [
            [[0.9, 0.1], [0.2, 0.8]],  # both
            [[0.9, 0.1], [0.95, 0.99]],  # text only: image 1 suits caption 0 better than image 0
            [[0.9, 0.95], [0.2, 0.99]],  # image only
            [[0.5, 0.5], [0.2, 0.8]],  # a tie is not a win
        ]
    )
    assert text_score(scores, DIAGONAL).values.tolist() == [1, 1, 0, 0]
    assert image_score(scores, DIAGONAL).values.tolist() == [1, 0, 1, 1]
    assert group_score(scores, DIAGONAL).values.tolist() == [1, 0, 0, 0]
    assert text_score(scores, DIAGONAL).ties.tolist() == [False, False, False, True]
    assert text_score(scores, DIAGONAL, ties="right").values.tolist() == [1, 1, 0, 1]
    assert text_score(scores, DIAGONAL).chance == 0.25
    assert image_score(scores, DIAGONAL).chance == 0.25
    assert group_score(scores, DIAGONAL).chance == pytest.approx(1 / 6)


@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_order_of_captions_and_monotone_maps_do_not_matter(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(-4, 5, size=(6, 1, n)).astype(np.float64)
    match = np.zeros((6, 1, n), dtype=bool)
    match[np.arange(6), 0, rng.integers(0, n, size=6)] = True
    plain = accuracy(scores, match)
    order = rng.permutation(n)
    for s, m in (
        (scores[..., order], match[..., order]),
        (3.5 * scores - 7.0, match),
        (np.exp(scores), match),
        (scores.astype(np.float16), match),
        (scores.astype(np.int64), match),
    ):
        other = accuracy(s, m)
        np.testing.assert_array_equal(other.values, plain.values)
        np.testing.assert_array_equal(other.ties, plain.ties)


@given(st.integers(0, 2**32 - 1))
def test_a_constant_score_never_wins(seed: int) -> None:
    n = 2 + seed % 5
    scores = np.full((3, 1, n), seed % 7)
    match = np.arange(n) == seed % n
    outcome = accuracy(scores, match[None])
    assert outcome.mean() == 0.0
    assert outcome.tie_rate() == 1.0
    assert accuracy(scores, match[None], ties="right").mean() == 1.0


def test_half_precision_is_widened_before_it_is_compared() -> None:
    # 1 + 2⁻¹¹ is a float32 but rounds to 1 in float16: scores must not pass through it.
    scores = np.array([[[1.0 + 2**-11, 1.0]]], dtype=np.float32)
    assert accuracy(scores, np.array([[True, False]])).values.tolist() == [1.0]


def test_padding_may_be_anything() -> None:
    scores = np.array([[[0.4, 0.3, np.nan]], [[0.4, 0.3, 0.5]]])
    match = np.array([[True, False, False]])
    present = np.array([[[True, True, False]], [[True, True, True]]])
    outcome = text_score(scores, match, present)
    assert outcome.values.tolist() == [1, 0]
    assert outcome.chance == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_several_right_captions_must_all_win() -> None:
    match = np.array([[True, False, True]])
    scores = np.array([[[0.9, 0.5, 0.6]], [[0.9, 0.5, 0.4]]])
    outcome = text_score(scores, match)
    assert outcome.values.tolist() == [1, 0]
    assert outcome.chance == pytest.approx(1 / 3)


def test_infinite_scores_and_rows_that_ask_nothing() -> None:
    match = np.array([[True, False], [False, False]])
    scores = np.array([[[0.5, -np.inf], [np.inf, np.inf]], [[np.inf, np.inf], [0.0, 0.0]]])
    outcome = text_score(scores, match)
    assert outcome.values.tolist() == [1, 0]
    assert outcome.ties.tolist() == [False, True]


def test_no_examples() -> None:
    empty = np.zeros((0, 2, 2))
    for function in (text_score, image_score, group_score):
        outcome = function(empty, DIAGONAL)
        assert outcome.values.shape == (0,)
        assert outcome.chance is None
        assert np.isnan(outcome.mean())
        assert np.isnan(outcome.tie_rate())


@pytest.mark.parametrize(
    ("scores", "match", "words"),
    [
        (np.zeros((2, 2)), DIAGONAL, "shape"),
        (np.zeros((3, 2, 2)), np.eye(3, dtype=bool), "shape"),
        (np.full((1, 2, 2), np.nan), DIAGONAL, "NaN"),
        (np.zeros((1, 2, 2)), np.ones((2, 2), dtype=bool), "tell apart"),
    ],
)
def test_what_cannot_be_scored_is_refused(scores: Scores, match: Cells, words: str) -> None:
    with pytest.raises(InputError, match=words):
        text_score(scores, match)


def test_one_image_has_no_image_score_and_many_have_no_accuracy() -> None:
    with pytest.raises(InputError, match="images to tell apart, so it has no image score"):
        image_score(np.zeros((1, 1, 3)), np.array([[True, False, False]]))
    with pytest.raises(InputError, match="accuracy"):
        accuracy(np.zeros((1, 2, 2)), DIAGONAL)
    with pytest.raises(InputError, match="ties"):
        text_score(np.zeros((1, 2, 2)), DIAGONAL, ties="maybe")  # type: ignore[arg-type]


SEEDS = st.integers(0, 2**32 - 1)
KINDS: tuple[Literal["std", "mean_abs"], ...] = ("std", "mean_abs")


@given(SEEDS)
def test_against_the_formula(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(2, 3, size=(20, 2, 2)).astype(np.float32)
    found = equivariance(scores)
    z = (scores.astype(float) - scores.astype(float).mean()) / scores.astype(float).std()
    for i, s in enumerate(z):
        assert found.text[i] == pytest.approx((s[0, 0] - s[0, 1]) - (s[1, 1] - s[1, 0]))
        assert found.image[i] == pytest.approx((s[0, 0] - s[1, 0]) - (s[1, 1] - s[0, 1]))
    summary = found.summary()
    assert summary["text_mean"] == pytest.approx(found.text.mean())
    assert summary["text_std"] == pytest.approx(found.text.std())
    assert summary["image_mean_abs"] == pytest.approx(np.abs(found.image).mean())
    assert list(summary) == [
        f"{a}_{b}" for a in ("text", "image") for b in ("mean", "std", "mean_abs")
    ]


@given(SEEDS)
def test_symmetric_with_a_constant_diagonal_is_zero(seed: int) -> None:
    rng = np.random.default_rng(seed)
    off, on = rng.normal(size=(2, 30))
    scores = np.stack([np.stack([on, off], 1), np.stack([off, on], 1)], 1)
    found = equivariance(scores)
    np.testing.assert_allclose(found.text, 0, atol=1e-12)
    np.testing.assert_allclose(found.image, 0, atol=1e-12)


@given(SEEDS, st.floats(0.01, 100), st.floats(-100, 100))
def test_affine_maps_of_the_scores_change_nothing(seed: int, scale: float, shift: float) -> None:
    scores = np.random.default_rng(seed).normal(size=(20, 2, 2))
    plain, moved = equivariance(scores), equivariance(scale * scores + shift)
    np.testing.assert_allclose(moved.text, plain.text, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(moved.image, plain.image, rtol=1e-6, atol=1e-8)


@given(SEEDS)
def test_exchanging_images_and_captions_exchanges_the_sides(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(20, 2, 2))
    plain, turned = equivariance(scores), equivariance(scores.transpose(0, 2, 1))
    np.testing.assert_allclose(turned.text, plain.image)
    np.testing.assert_allclose(turned.image, plain.text)


@given(SEEDS, st.floats(-1e6, 1e6))
@settings(deadline=None)
def test_a_spread_is_standardized_by_the_scores_that_count(seed: int, shift: float) -> None:
    """Also far from 0, where sums of squares lose digits, and with other examples beside."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(30, 2, 2)) * rng.uniform(0.5, 5, size=(30, 1, 1)) + shift
    raw = equivariance(scores, standardize=False)
    flat = scores.reshape(30, 4)
    inside = np.arange(30) < 12
    for chosen in (np.ones(30, dtype=bool), inside):
        wanted = equivariance(scores[chosen]).summary()
        for side, values in (("text", raw.text), ("image", raw.image)):
            for kind in KINDS:
                spread = standardized_spread(
                    values, flat.mean(axis=1), flat.var(axis=1), kind, chosen
                )
                assert spread.value() == pytest.approx(wanted[f"{side}_{kind}"], rel=1e-6)


def test_a_spread_of_constant_scores_is_zero() -> None:
    zeros, ones = np.zeros(3), np.ones(3)
    for kind in KINDS:
        assert standardized_spread(zeros, 0.7 * ones, zeros, kind).value() == 0


def test_constant_scores_are_equivariant_and_infinite_ones_refused() -> None:
    assert equivariance(np.full((3, 2, 2), 0.7)).summary()["text_mean_abs"] == pytest.approx(0)
    with pytest.raises(InputError, match="infinite"):
        equivariance(np.full((3, 2, 2), np.inf))
    with pytest.raises(InputError, match="shape"):
        equivariance(np.zeros((3, 2, 3)))
    assert equivariance(np.zeros((0, 2, 2))).text.shape == (0,)


@settings(deadline=None)
@given(st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_group_match_against_all_matchings(m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (5, m, m)) / 10
    order = rng.permutation(m)
    match = np.eye(m, dtype=bool)[order]
    outcome = group_match(scores, match)
    assert outcome.chance == pytest.approx(1 / math.factorial(m))
    for i in range(5):
        tenths = np.rint(10 * scores[i]).astype(int)
        true = tenths[np.arange(m), order].sum()
        others = [
            tenths[np.arange(m), list(other)].sum()
            for other in permutations(range(m))
            if list(other) != order.tolist()
        ]
        assert outcome.values[i] == (true > max(others))
        assert outcome.ties[i] == (true == max(others))


def test_group_match_needs_a_matching() -> None:
    for match in (np.ones((2, 2), dtype=bool), np.eye(3, dtype=bool)[:2]):
        with pytest.raises(InputError, match="matching"):
            group_match(np.zeros((1, *match.shape)), match)
    assert group_match([[[2.0, 1.0], [3.0, 2.5]]], DIAGONAL).values.tolist() == [1.0]
    assert text_score([[[2.0, 1.0], [3.0, 2.5]]], DIAGONAL).values.tolist() == [0.0]
