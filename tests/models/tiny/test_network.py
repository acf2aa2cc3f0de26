"""The networks: shapes, what may be looked at, and that padding is not."""

from __future__ import annotations

import pytest
import torch

from contrapose.models.tiny.network import (
    END,
    MATCH,
    PAD,
    START,
    FusionDecoder,
    TinyConfig,
    TinyNetwork,
    grid_positions,
)
from tools.train_tiny.__main__ import CONFIGS

CONFIG = TinyConfig(
    40, width=32, heads=4, image_layers=1, text_layers=2, fusion_layers=2, embedding=16,
    image_size=24, patch=12, context=12,
)  # fmt: skip


@pytest.fixture(scope="module")
def network() -> TinyNetwork:
    torch.manual_seed(3)
    return TinyNetwork(CONFIG).eval()


@pytest.fixture(scope="module")
def fusion(network: TinyNetwork) -> FusionDecoder:
    assert network.fusion is not None
    return network.fusion


@pytest.fixture(scope="module")
def seen(network: TinyNetwork) -> torch.Tensor:
    with torch.no_grad():
        tokens: torch.Tensor = network.image(torch.rand(2, 3, 24, 24) * 2 - 1)
    return tokens


def captions(first: int = START) -> torch.Tensor:
    return torch.tensor([[first, 10, 11, 12, END], [first, 20, 21, END, PAD]])


def wider(tokens: torch.Tensor, by: int = 4) -> torch.Tensor:
    return torch.nn.functional.pad(tokens, (0, by), value=PAD)


@torch.no_grad()
def test_shapes(network: TinyNetwork, fusion: FusionDecoder, seen: torch.Tensor) -> None:
    assert seen.shape == (2, 4, 32)
    assert network.image.embed(seen).shape == (2, 16)
    assert network.text(captions()).shape == (2, 16)
    assert fusion.match(captions(MATCH), seen).shape == (2,)
    assert fusion.logits(captions(), seen).shape == (2, 5, 40)


@torch.no_grad()
def test_vectors_have_length_one(network: TinyNetwork, seen: torch.Tensor) -> None:
    for vectors in (network.image.embed(seen), network.text(captions())):
        torch.testing.assert_close(vectors.norm(dim=1), torch.ones(2))


@torch.no_grad()
@pytest.mark.parametrize("place", range(5))
def test_a_later_token_does_not_change_earlier_logits(
    fusion: FusionDecoder, seen: torch.Tensor, place: int
) -> None:
    changed = captions()
    changed[:, place] = 33
    before, after = fusion.logits(captions(), seen), fusion.logits(changed, seen)
    torch.testing.assert_close(after[:, :place], before[:, :place])
    apart = (after[:, place:] - before[:, place:]).abs().amax(dim=(0, 2))
    assert (apart > 1e-6).all()


@torch.no_grad()
def test_judging_sees_every_token(fusion: FusionDecoder, seen: torch.Tensor) -> None:
    before = fusion.match(captions(MATCH), seen)
    for place in range(4):
        changed = captions(MATCH)
        changed[:, place] = 33
        assert ((fusion.match(changed, seen) - before).abs() > 1e-7).all()


@torch.no_grad()
def test_padding_changes_nothing(
    network: TinyNetwork, fusion: FusionDecoder, seen: torch.Tensor
) -> None:
    torch.testing.assert_close(network.text(wider(captions())), network.text(captions()))
    judged = captions(MATCH)
    torch.testing.assert_close(fusion.match(wider(judged), seen), fusion.match(judged, seen))
    logits = fusion.logits(wider(captions()), seen)[:, :5]
    torch.testing.assert_close(logits, fusion.logits(captions(), seen))
    alone = captions()[1:, :4]
    torch.testing.assert_close(network.text(alone), network.text(captions())[1:])


@torch.no_grad()
def test_the_image_is_looked_at(fusion: FusionDecoder, seen: torch.Tensor) -> None:
    other = seen.flip(0)
    assert ((fusion.match(captions(MATCH), seen) - fusion.match(captions(MATCH), other)) != 0).all()
    assert not torch.allclose(fusion.logits(captions(), seen), fusion.logits(captions(), other))


def test_a_dual_encoder_has_no_fusion() -> None:
    assert TinyNetwork(CONFIGS["tiny-clip"]).fusion is None


@pytest.mark.parametrize(("name", "size"), [("tiny", 7_419_170), ("tiny-clip", 2_121_201)])
def test_number_of_weights(name: str, size: int) -> None:
    with torch.device("meta"):
        assert TinyNetwork(CONFIGS[name]).size == size


def test_places_of_the_grid_differ() -> None:
    places = grid_positions(8, 192)
    assert places.shape == (64, 192)
    apart = torch.cdist(places, places) + torch.eye(64)
    assert apart.min() > 0.1
