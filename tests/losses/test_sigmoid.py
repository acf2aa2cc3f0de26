from __future__ import annotations

import pytest
import torch

from contrapose.errors import InputError
from contrapose.losses import LossBatch, Sigmoid
from tests.losses import naive
from tests.losses.checks import assert_same, compute, leaves, number


@pytest.mark.parametrize(("tile", "keep"), [(None, None), (1, 0), (3, 0), (3, 10**9)])
def test_loss_and_gradients(tile: int | None, keep: int | None) -> None:
    image, text = leaves(*naive.features(7))
    scale, bias = number(5.0), number(-1.5)
    ours = compute(Sigmoid(), image, text, scale=scale, bias=bias, tile=tile, keep=keep)
    theirs = naive.sigmoid(image, text, scale, bias)
    assert_same(ours, theirs, (image, text, scale, bias))


def test_bad_shapes() -> None:
    with pytest.raises(InputError, match="both must be"):
        Sigmoid()(LossBatch(torch.ones(4, 3), torch.ones(4, 2)))
