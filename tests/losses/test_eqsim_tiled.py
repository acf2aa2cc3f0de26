"""The tiled form of EqSim: equal to the page in `eqsim`, in a few tiles of memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from contrapose.losses import EqSim, InfoNCE, LossBatch, eqsim_tiled, pairwise
from contrapose.losses.eqsim_tiled import sample_columns, top_columns
from tests.losses import naive
from tests.losses.checks import assert_same, compute, leaves, number

VERSIONS = [
    ("all", "close"), ("all", "all"), ("all", None), (None, "close"), (None, "all"),
    ("easy", "close"),
]  # fmt: skip
TILES = [(None, None), (3, 0), (2, 10**9)]


@settings(deadline=None, max_examples=120)
@given(
    st.sampled_from(VERSIONS),
    st.sampled_from(["cosine", "softmax", "sigmoid"]),
    st.sampled_from(["mean", "pair"]),
    st.sampled_from([0.0, 0.02, 0.3]),
    st.sampled_from([None, 0.0, 0.01]),
    st.integers(1, 9),
    st.integers(2, 14),
    st.sampled_from([*TILES, (1, 0), (5, 0), (100, 0)]),
    st.integers(0, 10**6),
)
def test_tiles_equal_the_page(
    versions: Any, similarity: Any, hinge: Any, margin: float, margin_v1: float | None,
    close: int, size: int, tiles: tuple[int | None, int | None], seed: int,
) -> None:  # fmt: skip
    chosen = EqSim(
        v1=versions[0], v2=versions[1], similarity=similarity, hinge=hinge, margin=margin,
        margin_v1=margin_v1, close=close,
    )  # fmt: skip
    image, text = leaves(*naive.features(size, seed=seed))
    scale, bias = number(5.0), number(-1.5)
    batch = LossBatch(image, text, scale=scale, bias=bias)
    (ours,) = pairwise(batch, [chosen], tile=tiles[0], keep=tiles[1])
    inputs = (image, text, scale, bias)
    assert_same(ours, chosen.plain(batch), inputs, rtol=1e-12, grad_rtol=1e-10)


@pytest.mark.parametrize("size", [2, 3])
def test_batches_with_few_others(size: int) -> None:
    image, text = leaves(*naive.features(size))
    theirs = EqSim().plain(LossBatch(image, text))
    assert_same(compute(EqSim(), image, text, tile=1, keep=0), theirs, (image, text))


@pytest.mark.parametrize("tiles", TILES)
def test_ties_take_the_lowest_index(tiles: tuple[int | None, int | None]) -> None:
    """Exact cosines of few values, so that many are equal at the edge of the top k."""
    make = torch.Generator().manual_seed(0)
    image, text = (
        torch.randint(-2, 3, (20, 3), generator=make).double() / 4 for _ in range(2)
    )  # fmt: skip
    chosen = EqSim(close=3)
    inputs = leaves(image, text)
    ours = compute(chosen, *inputs, tile=tiles[0], keep=tiles[1])
    assert_same(ours, chosen.plain(LossBatch(*inputs)), inputs, rtol=1e-12)


@pytest.mark.parametrize("length", [1, 9, 1024, 1536, 2000, 4096])
@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("levels", [None, 5, 40])
def test_top_columns_are_a_stable_sort(length: int, count: int, levels: int | None) -> None:
    values = torch.randn(3, length, generator=torch.Generator().manual_seed(length))
    if levels is not None:  # few distinct values: many ties
        values = (values * levels / 4).round()
    count = min(count, length)
    expected = values.sort(dim=1, descending=True, stable=True).indices[:, :count]
    assert top_columns(values, count).tolist() == expected.sort(dim=1).values.tolist()


def test_samples_follow_the_softmax() -> None:
    torch.manual_seed(0)
    image, text = naive.features(6)
    logits = 3 * image @ text.T
    logits.fill_diagonal_(-torch.inf)
    shares, rounds = torch.zeros(6, 6, dtype=torch.float64), 4_000
    for _ in range(rounds):
        shares[torch.arange(6), sample_columns(logits, 1)[:, 0]] += 1 / rounds
    torch.testing.assert_close(shares, logits.softmax(dim=1), atol=0.035, rtol=0)
    several = sample_columns(logits, 5)
    assert all(sorted({*row, i}) == list(range(6)) for i, row in enumerate(several.tolist()))


@pytest.mark.parametrize("tiles", TILES)
def test_released_draws_and_leaves_out_what_it_drew(
    tiles: tuple[int | None, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    draws: list[Tensor] = []

    def sample(logits: Tensor, count: int) -> Tensor:
        draws.append(sample_columns(logits, count))
        return draws[-1]

    monkeypatch.setattr(eqsim_tiled, "sample_columns", sample)
    torch.manual_seed(3)
    image, text = leaves(*naive.features(12))
    scale, bias = number(20.0), number(0.0)
    chosen = EqSim.released()
    ours = compute(chosen, image, text, scale=scale, tile=tiles[0], keep=tiles[1])
    close = torch.zeros(12, 12, dtype=torch.float64)
    for side in (0, 1):
        near = torch.cat(draws[side::2])
        assert near.shape == (12, 4)
        assert all(len({*row, i}) == 5 for i, row in enumerate(near.tolist()))
        close.scatter_add_(1, near, torch.ones_like(close))
    assert float(ours.detach()) > 0
    batch = LossBatch(image, text, scale=scale)
    assert_same(ours, chosen.plain(batch, close), (image, text, scale), rtol=1e-12)
    pairs = [(i, j) for i, j in close.nonzero().tolist() for _ in range(int(close[i, j]))]
    assert_same(ours, naive.eqsim(image, text, chosen, scale, bias, pairs), (image, text, scale))


@pytest.mark.parametrize("chosen", [EqSim(close=2), EqSim.paper(0.0), EqSim(v1="easy", close=2)])
@pytest.mark.parametrize("keep", [0, 10**9])
def test_together_as_apart(chosen: EqSim, keep: int) -> None:
    image, text = leaves(*naive.features(9))
    scale = number(6.0)
    batch = LossBatch(image, text, scale=scale)
    nce, eq = pairwise(batch, [InfoNCE(), chosen], tile=2, keep=keep)
    assert_same(nce + 0.3 * eq, InfoNCE()(batch) + 0.3 * chosen(batch), (image, text, scale))


def test_only_one_of_two_goes_backward() -> None:
    image, text = leaves(*naive.features(9))
    batch = LossBatch(image, text, scale=3.0)
    _, eq = pairwise(batch, [InfoNCE(), EqSim()])
    assert_same(eq, EqSim()(batch), (image, text))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("chosen", [EqSim(), EqSim(v2="all"), EqSim.paper(0.0)])
@pytest.mark.parametrize("keep", [0, 10**9])
def test_a_gpu_gives_the_same(chosen: EqSim, keep: int) -> None:
    size = 1200  # rows long enough for blocks
    found = []
    for device in ("cpu", "cuda"):
        image, text = leaves(*(it.to(device) for it in naive.features(size, 16)))
        scale = torch.tensor(8.0, dtype=torch.float64, device=device, requires_grad=True)
        batch = LossBatch(image, text, scale=scale)
        nce, eq = pairwise(batch, [InfoNCE(), chosen], tile=500, keep=keep)
        slopes = torch.autograd.grad(nce + eq, [image, text, scale])
        found.append([it.detach().cpu() for it in (nce, eq, *slopes)])
    torch.testing.assert_close(found[1], found[0], rtol=1e-8, atol=1e-12)


class _Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The number of elements of the largest tensor that any operation makes."""

    size = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = func(*args, **(kwargs or {}))
        for it in outputs if isinstance(outputs, tuple | list) else [outputs]:
            if isinstance(it, Tensor) and it.is_contiguous():
                self.size = max(self.size, it.numel())
        return outputs


@pytest.mark.parametrize("chosen", [EqSim(close=2), EqSim.paper(), EqSim.released()])
def test_memory_is_a_few_tiles(chosen: EqSim) -> None:
    size, tile = 192, 8
    image, text = leaves(*(it.float() for it in naive.features(size, 4)))
    with _Largest() as largest:  # type: ignore[no-untyped-call]
        nce, eq = pairwise(LossBatch(image, text), [InfoNCE(), chosen], tile=tile, keep=0)
        torch.autograd.backward(nce + eq)
    assert largest.size <= size * max(tile, 2 * chosen.close)
