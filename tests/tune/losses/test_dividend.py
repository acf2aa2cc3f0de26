from __future__ import annotations

import pytest
import torch

from contrapose.diagnose.losses import dividend_loss
from contrapose.errors import InputError
from contrapose.tune.losses import Dividend
from tests.tune.losses import naive
from tests.tune.losses.checks import assert_same, leaves


def test_games_of_words() -> None:
    (image,) = leaves(naive.features(3)[0][:, None])
    right, wrong = leaves(*(it.reshape(3, 4, 5) for it in naive.features(12, seed=1)))
    ours = Dividend(dividend_loss, interaction=3, parts=(1, 2))(image, right, wrong)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(3):
        change: list[torch.Tensor] = []
        for mask, subsets in {3: [(0, 1), (1, -1), (2, -1), (3, 1)], 1: [(0, -1), (1, 1)],
                              2: [(0, -1), (2, 1)]}.items():  # fmt: skip
            assert mask
            w = [
                torch.stack([sign * (image[i, 0] * text[i, part]).sum() for part, sign in subsets])
                for text in (right, wrong)
            ]
            change.append((w[0] - w[1]).sum() ** 2)
        total = total - (change[0] / torch.stack(change).sum()).log()
    torch.testing.assert_close(ours, total / 3, rtol=1e-6, atol=0)


def test_masked_images_come_before_words() -> None:
    image = naive.features(6)[0].reshape(3, 2, 5)
    right, wrong = (it.reshape(3, 2, 5) for it in naive.features(6, seed=1))

    def first(right: torch.Tensor, wrong: torch.Tensor, **_: object) -> torch.Tensor:
        return right[:, 2]  # the second image with the first caption

    ours = Dividend(first, interaction=3, parts=(1,))(*leaves(image, right, wrong))
    torch.testing.assert_close(ours.detach(), (image[:, 1] * right[:, 0]).sum(1).mean())


def test_gradients() -> None:
    image, right, wrong = leaves(
        naive.features(3)[0][:, None], *(it.reshape(3, 4, 5) for it in naive.features(12, seed=1))
    )
    loss = Dividend(dividend_loss, interaction=3, parts=(1, 2))
    games = [torch.einsum("bmd,btd->bmt", image, text).flatten(1) for text in (right, wrong)]
    theirs = dividend_loss(*games, interaction=3, parts=(1, 2))
    assert_same(loss(image, right, wrong), theirs, (image, right, wrong))


def test_bad_shapes() -> None:
    loss = Dividend(dividend_loss, interaction=3, parts=(1, 2))
    with pytest.raises(InputError, match="masks"):
        loss(torch.ones(3, 5), torch.ones(3, 4, 5), torch.ones(3, 4, 5))
