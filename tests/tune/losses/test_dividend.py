from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.tune.losses import Dividend
from tests.tune.losses import naive
from tests.tune.losses.checks import assert_same, leaves

COALITIONS = {3: [(0, 1), (1, -1), (2, -1), (3, 1)], 1: [(0, -1), (1, 1)], 2: [(0, -1), (2, 1)]}
"""Of each pattern the values that its dividend is made of, and their signs."""


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
    assert_same(Dividend()(*given), written_out(*given).mean(), given)
    torch.testing.assert_close(Dividend().shares(*given), (-written_out(*given)).exp())


def test_those_without_games_do_not_count() -> None:
    given = inputs()
    has = torch.tensor([True, False, True])
    assert_same(Dividend()(*given, has=has), written_out(*given)[has].mean(), given)
    none = Dividend()(*given, has=torch.zeros(3, dtype=torch.bool))
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
    torch.testing.assert_close(ours(image, right, wrong), -share.log().mean())


def test_bad_shapes() -> None:
    with pytest.raises(InputError, match="masks"):
        Dividend()(torch.ones(3, 5), torch.ones(3, 4, 5), torch.ones(3, 4, 5))
