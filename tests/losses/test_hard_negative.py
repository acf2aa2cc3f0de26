from __future__ import annotations

import pytest
import torch

from contrapose.errors import InputError
from contrapose.losses import HardNegative, LossBatch
from tests.losses import naive
from tests.losses.checks import assert_same, leaves, number


@pytest.mark.parametrize("count", [None, 3])
def test_hard_negatives(count: int | None) -> None:
    image, text = leaves(*naive.features(6))
    shape = (6, 5) if count is None else (6, count, 5)
    (negative,) = leaves(torch.randn(shape, generator=torch.Generator().manual_seed(1)).double())
    scale = number(4.0)
    ours = HardNegative()(LossBatch(image, text, negative=negative, scale=scale))
    changed = negative.reshape(6, -1, 5)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(6):
        scores = [scale * (image[i] * it).sum() for it in (text[i], *changed[i])]
        total = total - (scores[0].exp() / sum(it.exp() for it in scores)).log()
    assert_same(ours, total / 6, (image, text, negative, scale))


def test_missing_negatives_do_not_count() -> None:
    image, text = leaves(*naive.features(6))
    (negative,) = leaves(naive.features(6, seed=1)[0])
    has = torch.tensor([True, False, True, True, False, False])
    scale = number(4.0)
    ours = HardNegative()(LossBatch(image, text, negative=negative, has_negative=has, scale=scale))
    theirs = HardNegative()(LossBatch(image[has], text[has], negative=negative[has], scale=scale))
    assert_same(ours, theirs, (image, text, negative, scale))
    none = HardNegative()(LossBatch(image, text, negative=negative, has_negative=torch.zeros(6)))
    assert float(none.detach()) == 0
    assert torch.autograd.grad(none, negative)[0].abs().max() == 0


def test_bad_shapes() -> None:
    image, text = naive.features(4)
    with pytest.raises(InputError, match="hard captions"):
        HardNegative()(LossBatch(image, text, negative=text[:3]))
    with pytest.raises(InputError, match="both must be"):
        HardNegative()(LossBatch(image, text[:3], negative=text))
    with pytest.raises(InputError, match="presence"):
        HardNegative()(LossBatch(image, text, negative=text, has_negative=torch.ones(3)))
    with pytest.raises(InputError, match="negative"):
        HardNegative()(LossBatch(image, text))
