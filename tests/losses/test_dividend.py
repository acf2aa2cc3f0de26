from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses import Dividend, LossBatch
from contrapose.losses.dividend import dividends, interaction_share, log_share, sensitivities
from contrapose.metrics.dividends import compute_sensitivities, moebius
from contrapose.metrics.dividends import dividends as exact_of_two_sets
from tests.losses import naive
from tests.losses.checks import assert_same, leaves

COALITIONS = {3: [(0, 1), (1, -1), (2, -1), (3, 1)], 1: [(0, -1), (1, 1)], 2: [(0, -1), (2, 1)]}
"""Of each pattern the values that its dividend is made of, and their signs."""


def loss(
    image: Tensor, right: Tensor, wrong: Tensor, *, has: Tensor | None = None,
    chosen: Dividend | None = None,
) -> Tensor:  # fmt: skip
    batch = LossBatch(image, image, masked=right, masked_negative=wrong, has_masked=has)
    return (chosen or Dividend())(batch)


def inputs() -> list[Tensor]:
    masked = (it.reshape(3, 4, 5) for it in naive.features(12, seed=1))
    return leaves(naive.features(3)[0][:, None], *masked)


def written_out(image: Tensor, right: Tensor, wrong: Tensor) -> Tensor:
    """(b,) −log of the share, cosine by cosine."""
    found = []
    for i in range(len(image)):
        change: list[Tensor] = []
        for subsets in COALITIONS.values():
            w = [
                torch.stack([sign * (image[i, 0] * text[i, part]).sum() for part, sign in subsets])
                for text in (right, wrong)
            ]
            change.append((w[0] - w[1]).sum() ** 2 + 1e-12)
        found.append(-(change[0] / torch.stack(change).sum()).log())
    return torch.stack(found)


def test_games_of_words() -> None:
    given = inputs()
    assert_same(loss(*given), written_out(*given).mean(), given)
    torch.testing.assert_close(Dividend().shares(*given), (-written_out(*given)).exp())


def test_those_without_games_do_not_count() -> None:
    given = inputs()
    has = torch.tensor([True, False, True])
    assert_same(loss(*given, has=has), written_out(*given)[has].mean(), given)
    none = loss(*given, has=torch.zeros(3, dtype=torch.bool))
    assert none.item() == 0
    assert all(not slope.any() for slope in torch.autograd.grad(none, given))


def test_masked_images_come_before_words() -> None:
    """One region and one group of words: the interaction of both is the mask 0b11."""
    image = naive.features(6)[0].reshape(3, 2, 5)
    right, wrong = (it.reshape(3, 2, 5) for it in naive.features(6, seed=1))
    change = (image[:, :, None] * (right - wrong)[:, None]).sum(-1)  # (b, image's mask, words')
    both = change[:, 1, 1] - change[:, 1, 0] - change[:, 0, 1] + change[:, 0, 0]
    region, words = change[:, 1, 0] - change[:, 0, 0], change[:, 0, 1] - change[:, 0, 0]
    share = both**2 / (both**2 + region**2)
    ours = Dividend(interaction=0b11, parts=(0b10,))
    torch.testing.assert_close(ours.shares(image, right, wrong), share)
    share = words**2 / (words**2 + both**2)
    ours = Dividend(interaction=0b01, parts=(0b11,))
    torch.testing.assert_close(loss(image, right, wrong, chosen=ours), -share.log().mean())


def test_bad_shapes() -> None:
    with pytest.raises(InputError, match="masks"):
        loss(torch.ones(3, 1, 1, 5), torch.ones(3, 4, 5), torch.ones(3, 4, 5))


O, R, RO = 0b01, 0b10, 0b11  # noqa: E741 - the players' names


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def by_definition(values: Tensor) -> Tensor:
    """The double loop over coalitions and their parts."""
    found = []
    for s in range(values.shape[-1]):
        parts = [part for part in range(s + 1) if part & ~s == 0]
        found.append(sum((-1) ** ((s ^ part).bit_count()) * values[..., part] for part in parts))
    return torch.stack(found, dim=-1)


@pytest.mark.parametrize("players", [0, 1, 4])
def test_dividends_are_those_of_arrays(players: int) -> None:
    values = random(3, 2, 2**players)
    np.testing.assert_allclose(dividends(values).numpy(), moebius(values.numpy()), atol=1e-12)


def test_two_sets_lie_end_to_end() -> None:
    values = random(3, 4, 8)
    found = dividends(values.flatten(-2)).reshape(3, 4, 8)
    np.testing.assert_allclose(found.numpy(), exact_of_two_sets(values.numpy()), atol=1e-12)


def test_gradients_of_dividends() -> None:
    values = random(2, 8).requires_grad_()
    assert torch.autograd.gradcheck(dividends, (values,))
    weights = random(2, 8, seed=1)
    (ours,) = torch.autograd.grad((dividends(values) * weights).sum(), values)
    (theirs,) = torch.autograd.grad((by_definition(values) * weights).sum(), values)
    torch.testing.assert_close(ours, theirs)


def test_gradients_of_the_share() -> None:
    right, wrong = random(5, 8).requires_grad_(), random(5, 8, seed=1).requires_grad_()

    def loss(right: Tensor, wrong: Tensor) -> Tensor:
        return -log_share(right, wrong, interaction=RO, parts=(O, R)).mean()

    def naive(right: Tensor, wrong: Tensor) -> Tensor:
        change = (by_definition(right) - by_definition(wrong)).square()
        return -(change[:, RO] / (change[:, RO] + change[:, O] + change[:, R])).log().mean()

    assert torch.autograd.gradcheck(loss, (right, wrong))
    assert loss(right, wrong).item() == pytest.approx(naive(right, wrong).item())
    for ours, theirs in zip(
        torch.autograd.grad(loss(right, wrong), (right, wrong)),
        torch.autograd.grad(naive(right, wrong), (right, wrong)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_sensitivities_are_the_metrics() -> None:
    right, wrong = random(6, 4), random(6, 4, seed=1)
    patterns = (O, R, RO)
    w = moebius(torch.stack([right, wrong], dim=1).numpy())[..., list(patterns)]
    found = sensitivities(right, wrong, patterns)
    np.testing.assert_allclose(found.numpy(), compute_sensitivities(w, np.ones(6)), rtol=1e-9)
    share = interaction_share(right, wrong, interaction=RO, parts=(O, R))
    torch.testing.assert_close(share, found[:, 2] / found.sum(dim=-1))


def test_a_descent_raises_the_share() -> None:
    words, image = random(4, 6).requires_grad_(), random(6, seed=1)
    swapped = random(4, 6, seed=2)
    optimiser = torch.optim.Adam([words], lr=0.05)

    def games() -> tuple[Tensor, Tensor]:
        """Scores of one image with captions whose words have vectors that add up, not linearly."""
        coalitions = torch.tensor([[s & 1, s >> 1] for s in range(4)], dtype=torch.float64)
        right = torch.tanh(coalitions @ words[:2]) @ image
        wrong = torch.tanh(coalitions @ (words[:2] + 0.3 * swapped[:2])) @ image
        return right, wrong

    def share() -> float:
        return float(interaction_share(*games(), interaction=RO, parts=(O, R)).detach())

    before = share()
    for _ in range(60):
        optimiser.zero_grad()
        loss = -log_share(*games(), interaction=RO, parts=(O, R))
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert share() > max(before, 0.5)


def test_nothing_changes() -> None:
    values = random(4).requires_grad_()
    share = interaction_share(values, values, interaction=RO, parts=(O, R))
    assert share.item() == pytest.approx(1 / 3)
    (gradient,) = torch.autograd.grad(share, values)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
def test_refuses_half_precision(dtype: torch.dtype) -> None:
    with pytest.raises(InputError, match="float32 or wider"):
        dividends(torch.zeros(4, dtype=dtype))


def test_refuses_what_is_no_game() -> None:
    with pytest.raises(InputError, match="6 is no power of 2"):
        dividends(torch.zeros(2, 6))
    with pytest.raises(InputError, match="no power of 2"):
        dividends(torch.tensor(1.0))
