"""The kernels against the tiles, which are tested against double loops.

Without a GPU they run in Triton's interpreter (see tests/conftest.py), where Triton is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.losses import EqSim, InfoNCE, LossBatch, Sigmoid, TiledLoss, pairwise
from contrapose.losses.fused import can_fuse, can_launch, fused_losses, has_kernels
from tests.losses.checks import compute

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
runs = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
ROOM = 10**9


@pytest.fixture(autouse=True, scope="module")
def _quick_interpreter() -> Iterator[None]:
    """Replace Triton's language once per launch and module.

    The interpreter does so at each call of a device function, for two thirds of its time; all but
    the first replace what is replaced already.
    """
    if find_spec("triton") is None or DEVICE == "cuda":
        yield
        return
    from triton.runtime import interpreter

    replace, run = interpreter._patch_lang, interpreter.InterpretedFunction.run
    modules: set[int] = set()

    def replace_once(function: Callable[..., object]) -> Any:
        module = id(function.__globals__)
        if module in modules:
            return None
        modules.add(module)
        return replace(function)

    def launch(kernel: object, *arguments: object, **options: object) -> Any:
        modules.clear()
        return run(kernel, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang", replace_once)
        patch.setattr(interpreter.InterpretedFunction, "run", launch)
        yield


def features(size: int, width: int = 16) -> tuple[Tensor, Tensor]:
    make = torch.Generator().manual_seed(size)
    image = torch.randn(size, width, generator=make)
    text = 0.5 * image + torch.randn(size, width, generator=make)
    return F.normalize(image, dim=1).to(DEVICE), F.normalize(text, dim=1).to(DEVICE)


def numbers(size: int) -> Tensor:
    """Some captions stand twice."""
    make = torch.Generator().manual_seed(size + 1)
    return torch.randint(0, max(1, size // 2), (size,), generator=make).to(DEVICE)


def both_ways(
    size: int, terms: list[TiledLoss], same: Tensor | None, tile: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Values and gradients by tiles, and by kernels."""
    found = []
    for quick in (False, True):
        image, text = (it.clone().requires_grad_() for it in features(size))
        scale = torch.tensor(14.3, device=DEVICE, requires_grad=True)
        if quick:
            values = fused_losses(image, text, terms, scale=scale, same=same, tile=tile)
        else:
            values = pairwise(LossBatch(image, text, scale=scale, same=same), terms, tile=size)
        weights = (1.3, 0.4)
        total = torch.stack([w * it for w, it in zip(weights, values, strict=False)]).sum()
        slopes = torch.autograd.grad(total, [image, text, scale])
        found.append([*(it.detach() for it in values), *slopes])
    return found[0], found[1]


@runs
@pytest.mark.parametrize(
    ("size", "twice", "eqsim"),
    [
        (17, True, EqSim()),
        (19, False, EqSim(close=2, margin=0.001, margin_v1=1e-4)),
        (18, True, EqSim(close=16)),
        (6, True, EqSim()),  # fewer others than close ones
        (2, False, EqSim()),
        (90, True, None),
        (20, True, EqSim(v1=None, close=2)),
        (70, False, EqSim(v2=None)),
        (9, False, EqSim(margin=9.0)),  # nothing is above it
    ],
)
def test_equal_to_tiles(size: int, twice: bool, eqsim: EqSim | None) -> None:
    terms: list[TiledLoss] = [InfoNCE()] if eqsim is None else [InfoNCE(), eqsim]
    theirs, ours = both_ways(size, terms, numbers(size) if twice else None, tile=size * 20)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-6)


@runs
@pytest.mark.parametrize(("size", "close"), [(18, 1), (66, 3)])
def test_ties_take_the_lowest_index(size: int, close: int) -> None:
    """Exact cosines of few values, so that many are equal, also across blocks of 64."""
    make = torch.Generator().manual_seed(close)
    image, text = (torch.randint(-2, 3, (size, 4), generator=make).float() / 4 for _ in range(2))
    image, text = (it.to(DEVICE).requires_grad_() for it in (image, text))
    losses: list[TiledLoss] = [InfoNCE(), EqSim(close=close)]
    scale = torch.tensor(2.0, device=DEVICE)
    _, ours = fused_losses(image, text, losses, scale=scale, same=None, tile=10**6)
    theirs = EqSim(close=close).plain(LossBatch(image, text, scale=scale))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)
    slopes = (torch.autograd.grad(it, [image, text]) for it in (ours, theirs))
    torch.testing.assert_close(*slopes, rtol=2e-5, atol=2e-6)


@runs
def test_equal_to_the_page() -> None:
    chosen = EqSim(close=2, margin=0.001, margin_v1=1e-4)
    image, text = (it.clone().requires_grad_() for it in features(66))
    scale = torch.tensor(14.3, device=DEVICE)
    _, ours = fused_losses(image, text, [InfoNCE(), chosen], scale=scale, same=None, tile=10**6)
    theirs = chosen.plain(LossBatch(image, text, scale=scale))
    torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-7)
    slopes = (torch.autograd.grad(it, [image, text]) for it in (ours, theirs))
    torch.testing.assert_close(*slopes, rtol=2e-5, atol=2e-6)


@runs
def test_all_of_a_block_may_be_hidden() -> None:
    same = torch.zeros(68, dtype=torch.int64, device=DEVICE)
    same[64:] = torch.arange(4, device=DEVICE)
    theirs, ours = both_ways(68, [InfoNCE(), EqSim(close=2)], same, tile=10**6)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-6)


@runs
def test_one_of_two_goes_backward_twice() -> None:
    image, text = (it.clone().requires_grad_() for it in features(20))
    scale = torch.tensor(5.0, device=DEVICE)
    nce, eq = fused_losses(image, text, [InfoNCE(), EqSim()], scale=scale, same=None, tile=10**6)
    (first,) = torch.autograd.grad(eq, [image], retain_graph=True)
    (alone,) = torch.autograd.grad(compute(EqSim(), image, text, tile=20), [image])
    torch.testing.assert_close(first, alone, rtol=2e-5, atol=2e-7)
    (again,) = torch.autograd.grad(nce, [image])
    (other,) = torch.autograd.grad(compute(InfoNCE(), image, text, scale=scale, tile=20), [image])
    torch.testing.assert_close(again, other, rtol=2e-5, atol=2e-6)


@runs
def test_values_may_be_modified() -> None:
    image, text = (it.clone().requires_grad_() for it in features(12))
    scale = torch.tensor(5.0, device=DEVICE)
    nce, eq = fused_losses(image, text, [InfoNCE(), EqSim()], scale=scale, same=None, tile=10**6)
    total = nce.mul(2)
    eq.detach().zero_()
    torch.autograd.backward(total)
    assert image.grad is not None
    assert image.grad.abs().sum() > 0


def test_which_losses_have_kernels() -> None:
    assert has_kernels([InfoNCE()], 100)
    assert has_kernels([InfoNCE(), EqSim()], 100)
    assert has_kernels([InfoNCE(), EqSim(close=99)], 10)  # at most nine are close there
    unknown: list[list[TiledLoss]] = [
        [Sigmoid()], [EqSim()], [EqSim(), InfoNCE()], [InfoNCE(), EqSim.paper()],
        [InfoNCE(), EqSim.released()], [InfoNCE(), EqSim(v2="all")], [InfoNCE(), EqSim(close=17)],
        [InfoNCE(), EqSim(hinge="pair")], [InfoNCE(), EqSim(), EqSim()], [],
    ]  # fmt: skip
    for terms in unknown:
        assert not has_kernels(terms, 100)


def test_where_kernels_do_not_suit() -> None:
    image, text = features(10)
    terms: list[TiledLoss] = [InfoNCE(), EqSim()]
    assert can_fuse(image, text, terms, keep=ROOM, triton=True)
    assert not can_fuse(image, text, terms, keep=ROOM, triton=False)
    assert not can_fuse(image, text, terms, keep=399, triton=True)  # 400 bytes of cosines
    assert not can_fuse(image.double(), text.double(), terms, keep=ROOM, triton=True)
    assert not can_fuse(image, text, [EqSim()], keep=ROOM, triton=True)
    torch.use_deterministic_algorithms(True)
    try:
        assert not can_fuse(image, text, terms, keep=ROOM, triton=True)
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_cpu_uses_tiles() -> None:
    image, text = (it.cpu() for it in features(10))
    assert not can_fuse(image, text, [InfoNCE()], keep=ROOM)


@runs
def test_kernels_that_do_not_run_are_replaced_by_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    from contrapose.losses import kernels

    can_launch.cache_clear()
    device = torch.device(DEVICE)
    assert can_launch(device)

    class Broken:
        def __getitem__(self, grid: object) -> object:
            raise RuntimeError("Failed to find C compiler.\nPlease set CC.")

    can_launch.cache_clear()
    monkeypatch.setattr(kernels, "losses", Broken())
    with pytest.warns(UserWarning, match="Failed to find C compiler"):
        assert not can_launch(device)
    assert not can_launch(device)  # said once
    can_launch.cache_clear()
