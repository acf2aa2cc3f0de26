"""The loss with one exponential a pair is that of the formula, and so are its derivatives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from contrapose.tune.heads.contrast import contrast
from contrapose.tune.losses.info_nce import InfoNCE


def vectors(size: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    rows = [torch.randn(size, 6, generator=draw, dtype=torch.float64) for _ in range(2)]
    image, text = (normalize(it, dim=1).requires_grad_() for it in rows)
    return image, text


def naive(image: Tensor, text: Tensor, tau: float) -> Tensor:
    """By a loop over pairs."""
    total = image.new_zeros(())
    for i in range(len(image)):
        own = image[i] @ text[i] / tau
        over = torch.stack([image[i] @ text[j] / tau for j in range(len(text))])
        under = torch.stack([image[j] @ text[i] / tau for j in range(len(text))])
        total = total + over.logsumexp(0) + under.logsumexp(0) - 2 * own
    return total / (2 * len(image))


@pytest.mark.parametrize("tau", [1.0, 0.1, 0.025, 0.01])
def test_loss_and_derivatives(tau: float) -> None:
    ours, theirs = vectors(9), vectors(9)
    found, expected = contrast(*ours, tau), naive(*theirs, tau)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    (3 * found).backward()  # type: ignore[no-untyped-call]
    (3 * expected).backward()  # type: ignore[no-untyped-call]
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-10, atol=1e-12)


def test_the_worst_case_of_float32() -> None:
    """Every caption opposite to every image, at the least temperature of this form."""
    image = normalize(torch.ones(4, 6), dim=1).requires_grad_()
    text = (-image.detach()).requires_grad_()
    loss = contrast(image, text, 0.025)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(float(torch.tensor(4.0).log()), rel=1e-4)
    assert image.grad is not None
    assert torch.isfinite(image.grad).all()


def test_captions_of_one_image_are_no_negatives() -> None:
    image, text = vectors(8)
    same = torch.tensor([0, 0, 1, 2, 2, 2, 3, 4])
    expected = InfoNCE(tau=0.1)(image, text, same=same)
    assert torch.equal(contrast(image, text, 0.1, same), expected)
    assert contrast(image, text, 0.1).item() > expected.item()
