from __future__ import annotations

import pytest
import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses import EqSim, EqSimMatch, LossBatch, eqsim_of_scores
from tests.losses import naive
from tests.losses.checks import assert_same, leaves, number


def test_scores_of_sampled_pairs() -> None:
    image, text = leaves(*naive.features(5))
    others = torch.tensor([[j for j in range(5) if j != i] for i in range(5)])
    near = torch.rand(5, 4, generator=torch.Generator().manual_seed(0)) > 0.5
    close = [(i, int(others[i, k])) for i, k in near.nonzero().tolist()]
    for chosen in (
        EqSim(similarity="sigmoid", v2="all"),
        EqSim(similarity="sigmoid", v2="all", hinge="pair", margin=0.01),
        EqSim(similarity="sigmoid"),
    ):
        logits = 3 * image @ text.T
        right = logits.diagonal()
        captions, images = logits.gather(1, others), logits.T.gather(1, others)
        ours = eqsim_of_scores(right, captions, images, right[others], close=near, settings=chosen)
        theirs = naive.eqsim(image, text, chosen, number(3.0), number(0.0), close)
        assert_same(ours, theirs, (image, text))


def test_all_pairs_judged_are_the_loss_of_the_matrix() -> None:
    image, text = leaves(*naive.features(6))
    settings = EqSim(similarity="sigmoid", close=5, margin=0.01, hinge="pair")

    def match(images: Tensor, texts: Tensor) -> Tensor:
        return 4 * (image[images] * text[texts]).sum(1)

    batch = LossBatch(image, text, scale=4.0, match=match)
    assert_same(EqSimMatch(5, settings)(batch), settings.plain(batch), (image, text))


def test_sampled_pairs_are_the_near_ones_and_others() -> None:
    torch.manual_seed(0)
    image, text = naive.features(12)
    judged: list[tuple[Tensor, Tensor]] = []

    def match(images: Tensor, texts: Tensor) -> Tensor:
        judged.append((images, texts))
        return torch.zeros(len(images), dtype=torch.float64)

    loss = EqSimMatch(5, EqSim(similarity="sigmoid", close=2))
    assert float(loss(LossBatch(image, text, match=match))) == 0
    (rows, again), (images, texts), mirrored = judged
    assert rows.tolist() == again.tolist() == list(range(12))
    assert (images.tolist(), texts.tolist()) == (mirrored[1].tolist(), mirrored[0].tolist())
    away = (image @ text.T).fill_diagonal_(-torch.inf)
    for i, row in enumerate(texts.view(12, 5).tolist()):
        assert set(row[:2]) == set(away[i].topk(2).indices.tolist())
        assert len({*row, i}) == 6


def test_bad_input() -> None:
    image, text = naive.features(4)
    with pytest.raises(InputError, match="three of"):
        eqsim_of_scores(image[:, 0], image, image, image[:, :2])
    with pytest.raises(InputError, match="sigmoid"):
        eqsim_of_scores(image[:, 0], image, image, image, settings=EqSim.paper())
    with pytest.raises(InputError, match="match"):
        EqSimMatch()(LossBatch(image, text))
