from __future__ import annotations

from dataclasses import replace

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
    loss = EqSimMatch(5, 5, margin=0.01, hinge="pair")
    assert_same(loss(batch), settings.plain(batch), (image, text))


def test_sampled_pairs_are_a_double_loop() -> None:
    """Each pair with 4 others, 2 of them the nearest by the coarse similarity; term by term."""
    image, text = leaves(*naive.features(9))
    coarse = naive.features(9, seed=5)[0] @ naive.features(9, seed=6)[1].T
    same = torch.tensor([0, 1, 2, 0, 3, 4, 5, 6, 7])

    def match(images: Tensor, texts: Tensor) -> Tensor:
        return 4 * (image[images] * text[texts]).sum(1)

    batch = LossBatch(image, text, match=match, coarse=coarse, same=same, seed=3)
    for loss in (
        EqSimMatch(4, 2),
        EqSimMatch(4, 2, margin=0.002, margin_v1=0.001, hinge="pair"),
        EqSimMatch(4, 2, v2="all", margin=0.001),
        EqSimMatch(4, 2, v1="easy", margin=0.001),
    ):
        others = loss.plan(batch).others.tolist()
        for i, row in enumerate(others):
            away = sorted((j for j in range(9) if same[j] != same[i]), key=lambda j: -coarse[i, j])
            assert row[:2] == sorted(away[:2])
            assert len({*row, i}) == 5
        ours = loss(batch)
        assert_same(ours, naive.eqsim_of_pairs(image, text, others, loss), (image, text))


def test_samples_are_a_function_of_the_seed() -> None:
    image, text = naive.features(20)
    batch, loss = LossBatch(image, text, seed=1), EqSimMatch(6, 2)
    first = loss.plan(batch)
    torch.rand(5)
    assert torch.equal(first.others, loss.plan(batch).others)
    assert not torch.equal(first.others, loss.plan(replace(batch, seed=2)).others)
    assert torch.equal(first.others[:, :2], loss.plan(replace(batch, seed=2)).others[:, :2])
    drawn = replace(loss, chosen="drawn").plan(batch)
    assert not torch.equal(first.others[:, :2], drawn.others[:, :2])
    assert len({*zip(first.images.tolist(), first.texts.tolist(), strict=True)}) == len(
        first.images
    )


def test_a_pair_is_judged_once() -> None:
    image, text = naive.features(12)
    judged: list[tuple[int, int]] = []

    def match(images: Tensor, texts: Tensor) -> Tensor:
        judged.extend(zip(images.tolist(), texts.tolist(), strict=True))
        return torch.zeros(len(images), dtype=torch.float64)

    assert float(EqSimMatch(5, 2)(LossBatch(image, text, match=match))) == 0
    assert len(judged) == len(set(judged)) < 12 * 11
    assert {(i, i) for i in range(12)} < set(judged)
    assert {(j, i) for i, j in judged} == set(judged)


def test_bad_input() -> None:
    image, text = naive.features(4)
    with pytest.raises(InputError, match="three of"):
        eqsim_of_scores(image[:, 0], image, image, image[:, :2])
    with pytest.raises(InputError, match="sigmoid"):
        eqsim_of_scores(image[:, 0], image, image, image, settings=EqSim.paper())
    with pytest.raises(InputError, match="match"):
        EqSimMatch()(LossBatch(image, text))
    with pytest.raises(InputError, match="coarse"):
        EqSimMatch().plan(LossBatch(image, text, coarse=image[:2]))
