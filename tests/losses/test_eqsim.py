from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from contrapose.errors import InputError
from contrapose.losses import PRESETS, EqSim, InfoNCE, eqsim_from_scores, pairwise
from contrapose.losses.close_pairs import ClosePairFinder
from tests.losses import naive
from tests.losses.checks import assert_same, leaves, number

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
def test_loss_and_gradients(chosen: EqSim) -> None:
    image, text = leaves(*naive.features(7))
    scale, bias = number(5.0), number(-1.5)
    theirs = naive.eqsim(image, text, chosen, scale, bias)
    for tile, keep in [(None, None), (3, 0), (2, 10**9)]:
        ours = chosen(image, text, scale=scale, bias=bias, tile=tile, keep=keep)
        inputs = (image, text, scale, bias)
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)
        assert_same(ours, naive.eqsim(image, text, chosen, scale, bias), inputs)


@pytest.mark.parametrize("size", [2, 3])
def test_batches_with_few_others(size: int) -> None:
    image, text = leaves(*naive.features(size))
    scale, bias = number(1.0), number(0.0)
    theirs = naive.eqsim(image, text, EqSim(), scale, bias)
    assert_same(EqSim()(image, text, tile=1, keep=0), theirs, (image, text))


@pytest.mark.parametrize("v2", ["all", "close"])
@pytest.mark.parametrize("similarity", ["cosine", "sigmoid"])
def test_symmetric_with_a_constant_diagonal_is_zero(similarity: Any, v2: Any) -> None:
    image, _ = leaves(*naive.features(9))
    for keep in (0, None):
        loss = EqSim(v2=v2, similarity=similarity)(image, image, scale=4.0, tile=2, keep=keep)
        assert 0 <= float(loss.detach()) < 1e-15
        (slope,) = torch.autograd.grad(loss, image)
        assert slope.abs().max() < 1e-14


def test_equal_similarities_are_zero_after_a_softmax() -> None:
    simplex = torch.nn.functional.normalize(torch.eye(6, dtype=torch.float64) - 1 / 6, dim=1)
    assert float(EqSim.paper(0.0)(simplex, simplex, scale=7.0)) < 1e-20


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 9), st.integers(0, 10**6))
def test_v2_of_a_pair_is_twice_both_squares(size: int, seed: int) -> None:
    image, text = naive.features(size, seed=seed)
    s = image @ text.T
    right = s.diagonal()
    e, d = right[:, None] - right, s - s.T
    expected = (2 * e.square() + 2 * d.square()).sum() / (size * (size - 1))
    for keep in (0, None):
        found = EqSim(v1=None, v2="all")(image, text, tile=1, keep=keep)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_tiles_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    image, text = naive.features(23, 8)
    found = []
    if name == "released":  # the draws are others in other tiles: let all tiles have the same
        look = ClosePairFinder.look
        monkeypatch.setattr(ClosePairFinder, "look", lambda it, *tile: _undrawn(it, look, *tile))
    for tile, keep in [(23, 0), (1, 0), (5, 0), (5, 10**9), (None, None)]:
        inputs = leaves(image, text)
        loss = PRESETS[name]()(*inputs, scale=6.0, tile=tile, keep=keep)
        found.append([loss.detach(), *torch.autograd.grad(loss, inputs)])
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-9, atol=1e-13)


def _undrawn(it: ClosePairFinder, look: Any, *tile: Any) -> None:
    it.drawn = False
    look(it, *tile)


def _noted(notes: list[Tensor], it: Tensor) -> Tensor:
    notes.append(it)
    return it


def test_released_draws_and_leaves_what_it_drew(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Tensor] = []
    found = ClosePairFinder.found
    monkeypatch.setattr(ClosePairFinder, "found", lambda it: _noted(drawn, found(it)))
    torch.manual_seed(3)
    image, text = leaves(*naive.features(12))
    scale, bias = number(20.0), number(0.0)
    ours = EqSim.released()(image, text, scale=scale, tile=5, keep=0)
    (near,) = drawn
    assert near.shape == (12, 8)
    for half in (near[:, :4], near[:, 4:]):
        assert all(len(set(row)) == 4 for row in half.tolist())
    close = [(i, j) for i, row in enumerate(near.tolist()) for j in row]
    assert all(i != j for i, j in close)
    theirs = naive.eqsim(image, text, EqSim.released(), scale, bias, close)
    assert float(ours.detach()) > 0
    assert_same(ours, theirs, (image, text, scale))


def test_presets() -> None:
    paper, released = EqSim.paper(), EqSim.released()
    assert (paper.v1, paper.v2, paper.similarity, paper.hinge) == (
        "all",
        "close",
        "softmax",
        "pair",
    )
    assert (paper.close, paper.chosen, paper.margin) == (8, "top", 0.04)
    assert (released.v1, released.similarity, released.hinge) == ("easy", "softmax", "mean")
    assert (released.close, released.chosen, released.margin) == (4, "drawn", 0.1)
    assert released.margin_v1 == 0


@pytest.mark.parametrize("chosen", [EqSim(close=2), EqSim.paper(0.0), EqSim(v1="easy", close=2)])
@pytest.mark.parametrize("keep", [0, 10**9])
def test_together_as_apart(chosen: EqSim, keep: int) -> None:
    image, text = leaves(*naive.features(9))
    scale = number(6.0)
    nce, eq = pairwise(image, text, [InfoNCE(), chosen], scale=scale, tile=2, keep=keep)
    apart = InfoNCE()(image, text, scale=scale) + 0.3 * chosen(image, text, scale=scale)
    assert_same(nce + 0.3 * eq, apart, (image, text, scale))


def test_only_one_of_two_goes_back() -> None:
    image, text = leaves(*naive.features(9))
    _, eq = pairwise(image, text, [InfoNCE(), EqSim()], scale=3.0)
    assert_same(eq, EqSim()(image, text), (image, text))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("chosen", [EqSim(), EqSim(v2="all"), EqSim.paper(0.0)])
@pytest.mark.parametrize("keep", [0, 10**9])
def test_a_gpu_gives_the_same(chosen: EqSim, keep: int) -> None:
    size = 1200  # the larger part of the rows' blocks, and Gram matrices
    found = []
    for device in ("cpu", "cuda"):
        image, text = leaves(*(it.to(device) for it in naive.features(size, 16)))
        scale = torch.tensor(8.0, dtype=torch.float64, device=device, requires_grad=True)
        nce, eq = pairwise(image, text, [InfoNCE(), chosen], scale=scale, tile=500, keep=keep)
        slopes = torch.autograd.grad(nce + eq, [image, text, scale])
        found.append([it.detach().cpu() for it in (nce, eq, *slopes)])
    torch.testing.assert_close(found[1], found[0], rtol=1e-8, atol=1e-12)


class _Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The number of elements of the largest tensor that any operation makes."""

    size = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for it in found if isinstance(found, tuple | list) else [found]:
            if isinstance(it, Tensor) and it.is_contiguous():
                self.size = max(self.size, it.numel())
        return found


@pytest.mark.parametrize("chosen", [EqSim(close=2), EqSim.paper(), EqSim.released()])
def test_memory_is_a_few_tiles(chosen: EqSim) -> None:
    size, tile = 192, 8
    image, text = leaves(*(it.float() for it in naive.features(size, 4)))
    with _Largest() as largest:  # type: ignore[no-untyped-call]
        nce, eq = pairwise(image, text, [InfoNCE(), chosen], tile=tile, keep=0)
        torch.autograd.backward(nce + eq)
    assert largest.size <= size * max(tile, 2 * chosen.close)


def test_scores_of_a_fusion_encoder() -> None:
    image, text = leaves(*naive.features(5))
    others = torch.tensor([[j for j in range(5) if j != i] for i in range(5)])
    near = torch.rand(5, 4, generator=torch.Generator().manual_seed(0)) > 0.5
    close = [(i, int(others[i, k])) for i, k in near.nonzero().tolist()]
    for chosen in (
        EqSim(similarity="sigmoid", v2="all"),
        EqSim(similarity="sigmoid", v2="all", hinge="pair", margin=0.01),
        EqSim(similarity="sigmoid"),
    ):
        logits = 3 * image @ text.T
        own = logits.diagonal()
        there, back = logits.gather(1, others), logits.T.gather(1, others)
        ours = eqsim_from_scores(own, there, back, own[others], close=near, settings=chosen)
        theirs = naive.eqsim(image, text, chosen, number(3.0), number(0.0), close)
        assert_same(ours, theirs, (image, text))


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
        EqSim()(image, text[:3])
    with pytest.raises(InputError, match="three of"):
        eqsim_from_scores(image[:, 0], image, image, image[:, :2])
    with pytest.raises(InputError, match="sigmoid"):
        eqsim_from_scores(image[:, 0], image, image, image, settings=EqSim.paper())
