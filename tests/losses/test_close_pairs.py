from __future__ import annotations

import pytest
import torch

from contrapose.losses.batch import Batch
from contrapose.losses.close_pairs import ClosePairFinder, blockwise_topk
from contrapose.losses.gather import Processes
from tests.losses import naive


def batch(size: int, tile: int, scale: float = 1.0) -> Batch:
    image, text = naive.features(size)
    return Batch(
        image, text, torch.tensor(scale), torch.tensor(0.0), Processes(), tile, keeps=False
    )


def found(it: Batch, count: int, *, drawn: bool = False) -> torch.Tensor:
    closest = ClosePairFinder(it, count, drawn=drawn)
    for rows in it.tiles():
        closest.look(rows, it.cosines(rows))
    return closest.found()


@pytest.mark.parametrize("tile", [1, 4, 30, 100])
def test_nearest_captions_and_images(tile: int) -> None:
    it = batch(30, tile)
    near = found(it, 3)
    by_row = naive.close_pairs(it.images, it.texts, 3)
    for i, row in enumerate(near.tolist()):
        expected = [j for k, j in by_row if k == i]
        assert set(row[:3]) == set(expected[:3])
        assert set(row[3:]) == set(expected[3:])


@pytest.mark.parametrize("length", [1, 9, 1024, 1536, 2000, 4096])
@pytest.mark.parametrize("count", [1, 8])
def test_largest_is_topk(length: int, count: int) -> None:
    values = torch.randn(3, length, generator=torch.Generator().manual_seed(length))
    count = min(count, length)
    best, places = blockwise_topk(values, count)
    expected = values.topk(count, dim=1).values
    torch.testing.assert_close(best.sort(dim=1, descending=True).values, expected)
    torch.testing.assert_close(values.gather(1, places), best)


def test_draws_follow_the_softmax() -> None:
    torch.manual_seed(0)
    it = batch(6, 2, scale=3.0)
    shares = torch.zeros(2, 6, 6, dtype=torch.float64)
    rounds = 4_000
    for _ in range(rounds):
        near = found(it, 1, drawn=True)
        for side in (0, 1):
            shares[side, torch.arange(6), near[:, side]] += 1 / rounds
    logits = 3 * it.images @ it.texts.T
    for side, rows in enumerate((logits, logits.T)):
        expected = rows.clone().fill_diagonal_(-torch.inf).softmax(dim=1)
        torch.testing.assert_close(shares[side], expected, atol=0.035, rtol=0)
