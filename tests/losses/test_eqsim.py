"""The page of EqSim against double loops over pairs, and what the paper says of it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contrapose.errors import InputError
from contrapose.losses import EqSim, LossBatch
from contrapose.losses.eqsim import close_pairs
from tests.losses import naive
from tests.losses.checks import assert_same, compute, leaves, number

SETTINGS = [
    EqSim(v1=v1, v2=v2, similarity=similarity, hinge=hinge, margin=margin, close=2)  # type: ignore[arg-type]
    for (v1, v2), similarity, hinge, margin in product(
        [("all", "close"), ("all", "all"), ("all", None), (None, "close"), (None, "all"),
         ("easy", "close")],
        ["cosine", "softmax", "sigmoid"],
        ["mean", "pair"],
        [0.0, 0.02],
    )
]  # fmt: skip


@pytest.mark.parametrize("chosen", SETTINGS)
def test_page_and_tiles_equal_double_loops(chosen: EqSim) -> None:
    image, text = leaves(*naive.features(7))
    scale, bias = number(5.0), number(-1.5)
    batch, inputs = LossBatch(image, text, scale=scale, bias=bias), (image, text, scale, bias)
    assert_same(chosen.plain(batch), naive.eqsim(image, text, chosen, scale, bias), inputs, 1e-12)
    assert_same(chosen(batch), naive.eqsim(image, text, chosen, scale, bias), inputs)


def test_close_pairs_of_the_page() -> None:
    s = torch.tensor([[0.9, 0.5, 0.5, 0.1], [0.4, 0.9, 0.3, 0.3], [0.2, 0.2, 0.9, 0.2], [0.1] * 4])
    assert close_pairs(s, 1).tolist() == [[0, 2, 0, 0], [2, 0, 0, 0], [2, 0, 0, 0], [1, 1, 0, 0]]
    assert close_pairs(s, 9).tolist() == (2 * (1 - torch.eye(4))).tolist()


@pytest.mark.parametrize("v2", ["all", "close"])
@pytest.mark.parametrize("similarity", ["cosine", "sigmoid"])
def test_symmetric_with_a_constant_diagonal_is_zero(similarity: Any, v2: Any) -> None:
    image, _ = leaves(*naive.features(9))
    for keep in (0, None):
        chosen = EqSim(v2=v2, similarity=similarity)
        loss = compute(chosen, image, image, scale=4.0, tile=2, keep=keep)
        assert 0 <= float(loss.detach()) < 1e-15
        (gradient,) = torch.autograd.grad(loss, image)
        assert gradient.abs().max() < 1e-14


def test_equal_similarities_are_zero_after_a_softmax() -> None:
    simplex = torch.nn.functional.normalize(torch.eye(6, dtype=torch.float64) - 1 / 6, dim=1)
    assert float(EqSim.paper(0.0)(LossBatch(simplex, simplex, scale=7.0))) < 1e-20


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 9), st.integers(0, 10**6))
def test_v2_of_a_pair_is_twice_both_squares(size: int, seed: int) -> None:
    image, text = naive.features(size, seed=seed)
    s = image @ text.T
    right = s.diagonal()
    e, d = right[:, None] - right, s - s.T
    expected = (2 * e.square() + 2 * d.square()).sum() / (size * (size - 1))
    for keep in (0, None):
        loss = compute(EqSim(v1=None, v2="all"), image, text, tile=1, keep=keep)
        torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-13)


def test_presets() -> None:
    paper, released = EqSim.paper(), EqSim.released()
    assert (paper.v1, paper.v2, paper.similarity, paper.hinge) == (
        "all", "close", "softmax", "pair",
    )  # fmt: skip
    assert (paper.close, paper.chosen, paper.margin) == (8, "top", 0.04)
    assert (released.v1, released.similarity, released.hinge) == ("easy", "softmax", "mean")
    assert (released.close, released.chosen, released.margin) == (4, "drawn", 0.1)
    assert released.margin_v1 == 0


def test_bad_input() -> None:
    image, text = naive.features(4)
    with pytest.raises(InputError, match="choose one"):
        EqSim(v1=None, v2=None)
    with pytest.raises(InputError, match="easy"):
        EqSim(v1="easy", v2="all")
    with pytest.raises(InputError, match="close pair"):
        EqSim(close=0)
    with pytest.raises(InputError, match="below zero"):
        EqSim(margin=-0.1)
    with pytest.raises(InputError, match="both must be"):
        EqSim()(LossBatch(image, text[:3]))
