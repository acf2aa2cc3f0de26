from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses import Match
from tests.losses import naive
from tests.losses.checks import assert_same, leaves


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_hardest_negatives(weight: float) -> None:
    image, text = leaves(*naive.features(6))
    logits = (5 * image @ text.T).detach()

    def judge(images: Tensor, texts: Tensor) -> Tensor:
        return 3 * (image[images] * text[texts]).sum(1)

    ours = Match(draw="hardest", weight=weight)(judge, logits, logits.T)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(6):
        others = [j for j in range(6) if j != i]
        caption = max(others, key=lambda j: float(logits[i, j]))
        picture = max(others, key=lambda j: float(logits[j, i]))
        total = total - weight * torch.sigmoid(3 * (image[i] * text[i]).sum()).log()
        total = total - (1 - torch.sigmoid(3 * (image[i] * text[caption]).sum())).log()
        total = total - (1 - torch.sigmoid(3 * (image[picture] * text[i]).sum())).log()
    assert_same(ours, total / 18, (image, text))


def test_draws_leave_out_the_right_and_the_hidden() -> None:
    torch.manual_seed(0)
    hidden = torch.zeros(5, 5)
    hidden[:, 0] = -torch.inf
    hidden[0, 0] = 50.0
    asked: list[tuple[Tensor, Tensor]] = []

    def judge(images: Tensor, texts: Tensor) -> Tensor:
        asked.append((images, texts))
        return torch.zeros(15)

    for _ in range(50):
        Match()(judge, hidden, torch.zeros(5, 5))
    for images, texts in asked:
        assert (images[:5] == texts[:5]).all()
        assert (images[5:] != texts[5:]).all()
        assert (texts[5:10] != 0).all()
    drawn = torch.cat([images[10:] for images, _ in asked])
    assert set(drawn.tolist()) == set(range(5))


def test_bad_shapes() -> None:
    with pytest.raises(InputError, match="both must be"):
        Match()(lambda images, _: images, torch.ones(4, 4), torch.ones(3, 3))
    with pytest.raises(InputError, match="columns"):
        Match()(lambda images, _: images, torch.ones(4, 3), torch.ones(4, 3))
    with pytest.raises(InputError, match="judge"):
        Match()(lambda images, _: images[:2].float(), torch.ones(4, 4), torch.ones(4, 4))
