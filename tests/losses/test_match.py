from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses import LossBatch, Match
from tests.losses import naive
from tests.losses.checks import assert_same, leaves


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_hardest_negatives(weight: float) -> None:
    image, text = leaves(*naive.features(6))
    logits = (5 * image @ text.T).detach()

    def match(images: Tensor, texts: Tensor) -> Tensor:
        return 3 * (image[images] * text[texts]).sum(1)

    loss = Match(draw="hardest", positive_weight=weight)
    ours = loss(LossBatch(image, text, scale=5.0, match=match))
    total = torch.zeros((), dtype=torch.float64)
    for i in range(6):
        others = [j for j in range(6) if j != i]
        caption = max(others, key=lambda j: float(logits[i, j]))
        picture = max(others, key=lambda j: float(logits[j, i]))
        total = total - weight * torch.sigmoid(3 * (image[i] * text[i]).sum()).log()
        total = total - (1 - torch.sigmoid(3 * (image[i] * text[caption]).sum())).log()
        total = total - (1 - torch.sigmoid(3 * (image[picture] * text[i]).sum())).log()
    assert_same(ours, total / 18, (image, text))


def test_draws_leave_out_matched_pairs_and_groups() -> None:
    torch.manual_seed(0)
    image, text = naive.features(5)
    same = torch.tensor([7, 1, 7, 2, 3])
    judged: list[tuple[Tensor, Tensor]] = []

    def match(images: Tensor, texts: Tensor) -> Tensor:
        judged.append((images, texts))
        return torch.zeros(15)

    for _ in range(50):
        Match()(LossBatch(image, text, scale=1.0, same=same, match=match))
    for images, texts in judged:
        assert (images[:5] == texts[:5]).all()
        assert (same[images[5:]] != same[texts[5:]]).all()
    drawn = torch.cat([images[10:] for images, _ in judged])
    assert set(drawn.tolist()) == set(range(5))


def test_bad_input() -> None:
    image, text = naive.features(4)
    with pytest.raises(InputError, match="both must be"):
        Match()(LossBatch(image, text[:3], match=lambda images, _: images))
    with pytest.raises(InputError, match="for 12 pairs"):
        Match()(LossBatch(image, text, match=lambda images, _: images[:2].float()))
    with pytest.raises(InputError, match="needs `match`"):
        Match()(LossBatch(image, text))
