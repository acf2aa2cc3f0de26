from __future__ import annotations

import pytest
import torch

from contrapose.errors import InputError
from contrapose.losses import HardNegative, HardPositive
from tests.losses import naive
from tests.losses.checks import assert_same, leaves, number


@pytest.mark.parametrize("count", [None, 3])
def test_hard_negatives(count: int | None) -> None:
    image, text = leaves(*naive.features(6))
    shape = (6, 5) if count is None else (6, count, 5)
    (negative,) = leaves(torch.randn(shape, generator=torch.Generator().manual_seed(1)).double())
    scale = number(4.0)
    ours = HardNegative()(image, text, negative, scale=scale)
    each = negative.reshape(6, -1, 5)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(6):
        scores = [scale * (image[i] * it).sum() for it in (text[i], *each[i])]
        total = total - (scores[0].exp() / sum(it.exp() for it in scores)).log()
    assert_same(ours, total / 6, (image, text, negative, scale))


def test_missing_negatives_do_not_count() -> None:
    image, text = leaves(*naive.features(6))
    (negative,) = leaves(naive.features(6, seed=1)[0])
    has = torch.tensor([True, False, True, True, False, False])
    scale = number(4.0)
    ours = HardNegative()(image, text, negative, has=has, scale=scale)
    theirs = HardNegative()(image[has], text[has], negative[has], scale=scale)
    assert_same(ours, theirs, (image, text, negative, scale))
    none = HardNegative()(image, text, negative, has=torch.zeros(6))
    assert float(none.detach()) == 0
    assert torch.autograd.grad(none, negative)[0].abs().max() == 0


def test_hard_positives_as_an_analogy() -> None:
    image, text = leaves(*naive.features(6))
    (positive,) = leaves(naive.features(6, seed=2)[0])
    scale = number(4.0)
    has = torch.tensor([True, True, False, True, True, True])
    ours = HardPositive()(image, text, positive, has=has, scale=scale)
    filled = torch.where(has[:, None], positive, text)
    theirs = naive.info_nce(image, filled, scale) + naive.info_nce(text, filled, scale)
    assert_same(ours, theirs / 2, (image, text, positive, scale))


def test_even_hard_positives() -> None:
    image, text = leaves(*naive.features(6))
    (positive,) = leaves(naive.features(6, seed=2)[0])
    scale = number(4.0)
    ours = HardPositive(form="even")(image, text, positive, scale=scale)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(6):
        scores = scale * torch.stack([(image[i] * it[i]).sum() for it in (text, positive)])
        total = total + torch.nn.functional.kl_div(
            scores.log_softmax(0), torch.full_like(scores, 0.5), reduction="sum"
        )
    assert_same(ours, total / 6, (image, text, positive, scale))
    assert abs(float(HardPositive(form="even")(image, text, text).detach())) < 1e-15


def test_bad_shapes() -> None:
    image, text = naive.features(4)
    with pytest.raises(InputError, match="hard captions"):
        HardNegative()(image, text, text[:3])
    with pytest.raises(InputError, match="both must be"):
        HardNegative()(image, text[:3], text)
    with pytest.raises(InputError, match="`has`"):
        HardNegative()(image, text, text, has=torch.ones(3))
    with pytest.raises(InputError, match="one a caption"):
        HardPositive()(image, text, text[:, None])
