from __future__ import annotations

import pytest
import torch

from contrapose.errors import InputError
from contrapose.losses import CyClip, LossBatch, load_loss
from tests.losses import naive
from tests.losses.checks import assert_same, leaves


def test_loops_over_pairs() -> None:
    image, text = leaves(*naive.features(5))
    across = within = torch.zeros((), dtype=torch.float64)
    for i in range(5):
        for j in range(5):
            across = across + ((image[i] * text[j]).sum() - (image[j] * text[i]).sum()) ** 2
            within = within + ((image[i] * image[j]).sum() - (text[i] * text[j]).sum()) ** 2
    ours = CyClip(cross=0.5, within=2.0)(LossBatch(image, text))
    assert_same(ours, (0.5 * across + 2.0 * within) / 5, (image, text))


def test_spaces_that_agree_cost_nothing() -> None:
    image, _ = naive.features(6)
    assert float(CyClip()(LossBatch(image, image))) == pytest.approx(0, abs=1e-12)


def test_options() -> None:
    assert load_loss("cyclip", {"within": "0"}) == CyClip(within=0.0)
    with pytest.raises(InputError, match="weights"):
        CyClip(cross=0, within=0)
