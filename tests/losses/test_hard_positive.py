from __future__ import annotations

import pytest
import torch

from contrapose.errors import InputError
from contrapose.losses import HardPositive, LossBatch
from tests.losses import naive
from tests.losses.checks import assert_same, leaves, number


def test_hard_positives_as_an_analogy() -> None:
    image, text = leaves(*naive.features(6))
    (positive,) = leaves(naive.features(6, seed=2)[0])
    scale = number(4.0)
    has = torch.tensor([True, True, False, True, True, True])
    ours = HardPositive()(LossBatch(image, text, positive=positive, has_positive=has, scale=scale))
    filled = torch.where(has[:, None], positive, text)
    theirs = naive.info_nce(image, filled, scale) + naive.info_nce(text, filled, scale)
    assert_same(ours, theirs / 2, (image, text, positive, scale))


def test_equal_captions_are_no_negatives_of_each_other() -> None:
    image, text = leaves(*naive.features(6))
    (positive,) = leaves(naive.features(6, seed=2)[0])
    scale, numbers = number(4.0), [7, 3, 7, 1, 3, 7]
    batch = LossBatch(image, text, positive=positive, scale=scale, same=torch.tensor(numbers))
    theirs = naive.info_nce(image, positive, scale, numbers)
    theirs = theirs + naive.info_nce(text, positive, scale, numbers)
    assert_same(HardPositive()(batch), theirs / 2, (image, text, positive, scale))


@pytest.mark.parametrize("numbers", [None, [7, 3, 7, 1, 3, 7]])
def test_an_analogy_of_one_direction(numbers: list[int] | None) -> None:
    """Images and captions pick their positive; positives pick nothing."""
    image, text = leaves(*naive.features(6))
    (positive,) = leaves(naive.features(6, seed=2)[0])
    scale, same = number(4.0), None if numbers is None else torch.tensor(numbers)
    has = torch.tensor([True, True, False, True, True, True])
    batch = LossBatch(image, text, positive=positive, has_positive=has, scale=scale, same=same)
    filled = torch.where(has[:, None], positive, text)
    total = torch.zeros((), dtype=torch.float64)
    for i in range(6):
        seen = [j for j in range(6) if j == i or numbers is None or numbers[i] != numbers[j]]
        for anchor in (image[i], text[i]):
            scores = {j: (scale * (anchor * filled[j]).sum()).exp() for j in seen}
            total = total - torch.log(scores[i] / sum(scores.values())) / 12
    ours = HardPositive(symmetric=False)(batch)
    assert_same(ours, total, (image, text, positive, scale))
    assert not torch.isclose(ours, HardPositive()(batch))
    with pytest.raises(InputError, match="direction"):
        HardPositive("even", symmetric=False)


def test_even_hard_positives() -> None:
    image, text = leaves(*naive.features(6))
    (positive,) = leaves(naive.features(6, seed=2)[0])
    scale = number(4.0)
    ours = HardPositive(form="even")(LossBatch(image, text, positive=positive, scale=scale))
    total = torch.zeros((), dtype=torch.float64)
    for i in range(6):
        scores = scale * torch.stack([(image[i] * it[i]).sum() for it in (text, positive)])
        total = total + torch.nn.functional.kl_div(
            scores.log_softmax(0), torch.full_like(scores, 0.5), reduction="sum"
        )
    assert_same(ours, total / 6, (image, text, positive, scale))
    same = HardPositive(form="even")(LossBatch(image, text, positive=text))
    assert abs(float(same.detach())) < 1e-15


def test_bad_shapes() -> None:
    image, text = naive.features(4)
    with pytest.raises(InputError, match="one a caption"):
        HardPositive()(LossBatch(image, text, positive=text[:, None]))
