from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from contrapose.errors import InputError
from contrapose.losses import InfoNCE, LossBatch, Temperature
from tests.losses import naive
from tests.losses.checks import assert_same, compute, leaves, number

TILES = [(None, None), (1, 0), (3, 0), (3, 10**9), (100, 0)]


@pytest.mark.parametrize(("tile", "keep"), TILES)
@pytest.mark.parametrize("size", [2, 7])
@pytest.mark.parametrize("factor", [5.0, 40.0, 90.0])
def test_loss_and_gradients(size: int, factor: float, tile: int | None, keep: int | None) -> None:
    image, text = leaves(*naive.features(size))
    scale = number(factor)
    ours = compute(InfoNCE(), image, text, scale=scale, tile=tile, keep=keep)
    assert_same(ours, naive.info_nce(image, text, scale), (image, text, scale))


@pytest.mark.parametrize(("tile", "keep"), TILES)
def test_pairs_of_one_group_are_no_negatives(tile: int | None, keep: int | None) -> None:
    image, text = leaves(*naive.features(6))
    scale, same = number(9.0), [3, 1, 3, 2, 3, 1]
    ours = compute(
        InfoNCE(), image, text, scale=scale, same=torch.tensor(same), tile=tile, keep=keep
    )
    assert_same(ours, naive.info_nce(image, text, scale, same), (image, text, scale))


def test_equal_to_two_cross_entropies() -> None:
    image, text = (it.float() for it in naive.features(50, 16))
    logits = image @ text.T / 0.1
    aim = torch.arange(50)
    theirs = (F.cross_entropy(logits, aim) + F.cross_entropy(logits.T, aim)) / 2
    torch.testing.assert_close(compute(InfoNCE(), image, text, scale=10.0, tile=7, keep=0), theirs)


def test_half_precision_is_widened() -> None:
    image, text = naive.features(8, 16)
    half = [it.bfloat16().requires_grad_() for it in (image, text)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = InfoNCE()(LossBatch(*half))
        torch.autograd.backward(loss)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, InfoNCE()(LossBatch(*(it.detach().float() for it in half))))
    assert all(it.grad is not None and it.grad.dtype == torch.bfloat16 for it in half)


def test_large_logits_stay_finite() -> None:
    image, text = leaves(*(it.float() for it in naive.features(9)))
    loss = compute(InfoNCE(), image, text, scale=1e4, tile=2, keep=0)
    torch.autograd.backward(loss)
    assert loss.isfinite()
    assert image.grad is not None
    assert image.grad.isfinite().all()


@pytest.mark.parametrize("tile", [None, 2])
def test_the_worst_case_of_one_exponential(tile: int | None) -> None:
    """Every caption opposite to every image, at the highest scale of this form."""
    image = F.normalize(torch.ones(4, 6), dim=1).requires_grad_()
    text = (-image.detach()).requires_grad_()
    loss = compute(InfoNCE(), image, text, scale=40.0, tile=tile, keep=0)
    torch.autograd.backward(loss)
    assert loss.item() == pytest.approx(float(torch.tensor(4.0).log()), rel=1e-4)
    assert image.grad is not None
    assert torch.isfinite(image.grad).all()


def test_vectors_that_are_not_unit_vectors() -> None:
    image, text = leaves(*(20 * it for it in naive.features(6)))
    scale = number(3.0)
    ours = compute(InfoNCE(), image, text, scale=scale)
    assert_same(ours, naive.info_nce(image, text, scale), (image, text, scale))


def test_backward_twice() -> None:
    image, text = leaves(*naive.features(6))
    loss = compute(InfoNCE(), image, text, tile=2)
    first = torch.autograd.grad(loss, [image, text], retain_graph=True)
    second = torch.autograd.grad(loss, [image, text])
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("image", "text"),
    [((4, 3), (5, 3)), ((4, 3), (4, 2)), ((4,), (4,)), ((1, 3), (1, 3)), ((2, 4, 3), (2, 4, 3))],
)
def test_bad_shapes(image: tuple[int, ...], text: tuple[int, ...]) -> None:
    with pytest.raises(InputError):
        InfoNCE()(LossBatch(torch.ones(image), torch.ones(text)))


def test_bad_arguments() -> None:
    image, text = naive.features(4)
    with pytest.raises(InputError, match="one number a row"):
        compute(InfoNCE(), image, text, same=torch.zeros(3))
    with pytest.raises(InputError, match="at least one"):
        compute(InfoNCE(), image, text, tile=-1)
    with pytest.raises(InputError, match="floating point"):
        compute(InfoNCE(), image.long(), text.long())
    with pytest.raises(InputError, match="above zero"):
        Temperature(0.0)


def test_temperature() -> None:
    assert float(Temperature(0.1)().detach()) == pytest.approx(10)
    assert float(Temperature(0.001)().detach()) == 100
    assert [it.requires_grad for it in Temperature(learnable=False).parameters()] == [False]
    image, text = naive.features(4)
    learnt = Temperature(0.2)
    torch.autograd.backward(compute(InfoNCE(), image, text, scale=learnt()))
    assert learnt.log_scale.grad is not None
    assert learnt.log_scale.grad != 0


def test_a_scale_of_one_number_in_a_list() -> None:
    image, text = leaves(*naive.features(6))
    scale = torch.tensor([5.0], dtype=torch.float64, requires_grad=True)
    assert_same(
        compute(InfoNCE(), image, text, scale=scale),
        naive.info_nce(image, text, scale[0]),
        (image, text, scale),
    )
