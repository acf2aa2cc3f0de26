from __future__ import annotations

import pytest
import torch

from contrapose.errors import InputError
from contrapose.losses import InfoNCE, LossBatch, NegativeInfoNCE
from tests.losses import naive
from tests.losses.checks import assert_same, leaves, number

HAS = [[True, False], [True, True], [False, False], [True, True], [True, True], [False, True]]
SAME = [7, 3, 7, 1, 3, 4]
SAME_NEGATIVE = [[0, 0], [4, 9], [0, 0], [9, 3], [8, 8], [0, 1]]


@pytest.mark.parametrize("tile", [None, 1, 4])
def test_negatives_compete_with_all_captions(tile: int | None) -> None:
    image, text = leaves(*naive.features(6))
    (negative,) = leaves(torch.stack([naive.features(6, seed=it)[1] for it in (1, 2)], dim=1))
    scale = number(4.0)
    batch = LossBatch(
        image, text, scale=scale, negative=negative, has_negative=torch.tensor(HAS),
        same=torch.tensor(SAME), same_negative=torch.tensor(SAME_NEGATIVE),
    )  # fmt: skip
    inputs = (image, text, negative, scale)
    for ours in (NegativeInfoNCE()(batch, tile=tile), NegativeInfoNCE().plain(batch)):
        theirs = naive.info_nce_with_negatives(
            *inputs, has=HAS, same=SAME, same_negative=SAME_NEGATIVE
        )
        assert_same(ours, theirs, inputs)


def test_it_is_the_formula_without_numbers_of_captions() -> None:
    image, text = leaves(*naive.features(5))
    (negative,) = leaves(naive.features(5, seed=1)[0])
    scale = number(3.0)
    logits = scale * image @ torch.cat([text, negative]).T
    target = torch.arange(5)
    theirs = torch.nn.functional.cross_entropy(logits, target)
    theirs = theirs + torch.nn.functional.cross_entropy(logits[:, :5].T, target)
    ours = NegativeInfoNCE()(LossBatch(image, text, scale=scale, negative=negative))
    assert_same(ours, theirs / 2, (image, text, negative, scale))


def test_without_negatives_it_is_the_contrastive_loss() -> None:
    image, text = leaves(*naive.features(5))
    batch = LossBatch(
        image, text, scale=3.0, negative=text.detach(), has_negative=torch.zeros(5),
        same=torch.tensor([1, 1, 2, 3, 4]),
    )  # fmt: skip
    assert_same(NegativeInfoNCE()(batch), InfoNCE()(batch), (image, text))


def test_a_batch_without_negatives_is_refused() -> None:
    with pytest.raises(InputError, match="negative"):
        NegativeInfoNCE()(LossBatch(*naive.features(4)))
