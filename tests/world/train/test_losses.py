"""The losses, written down a second time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from contrapose.models.tiny.network import Config, Network
from contrapose.models.tiny.tokeniser import END, MATCH, PAD, START
from contrapose.world.train.hard_pairs import drawn
from contrapose.world.train.losses import Patches, Places, contrast, go_on, match

SIZE = 6
CONFIG = Config(
    40, width=32, heads=4, image_layers=1, text_layers=1, fusion_layers=1, embedding=16,
    image_size=24, patch=12, context=12,
)  # fmt: skip


@pytest.fixture
def network() -> Network:
    torch.manual_seed(1)
    return Network(CONFIG).eval()


@pytest.fixture
def vectors() -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(2)
    image, text = (
        torch.nn.functional.normalize(torch.randn(SIZE, 16, generator=random), dim=1)
        for _ in range(2)
    )
    return image, text


def captions(*words: int) -> torch.Tensor:
    return torch.tensor([[START, word, word + 1, END, PAD, PAD] for word in words])


DISTINCT = captions(10, 12, 14, 16, 18, 20)
DOUBLED = captions(10, 12, 10, 16, 18, 10)


def info_nce(image: torch.Tensor, text: torch.Tensor, tokens: torch.Tensor, scale: float) -> float:
    """Mean over both directions of −log of the right one's share among what is not the same."""
    logits = scale * image.double().numpy() @ text.double().numpy().T
    total = 0.0
    for i in range(SIZE):
        others = [j for j in range(SIZE) if j == i or tokens[i].tolist() != tokens[j].tolist()]
        for line in (logits[i, others], logits[others, i]):
            total += float(np.log(np.exp(line).sum()) - logits[i, i])
    return total / (2 * SIZE)


@pytest.mark.parametrize("tokens", [DISTINCT, DOUBLED])
def test_contrast(
    network: Network, vectors: tuple[torch.Tensor, torch.Tensor], tokens: torch.Tensor
) -> None:
    loss, logits = contrast(network, *vectors, tokens)
    scale = float(network.log_scale.detach().exp())
    assert float(loss.detach()) == pytest.approx(info_nce(*vectors, tokens, scale), rel=1e-5)
    assert not logits.requires_grad
    same = (tokens[:, None] == tokens).all(dim=2) & ~torch.eye(SIZE, dtype=torch.bool)
    assert (logits[same] == -1e4).all()
    plain = scale * vectors[0] @ vectors[1].T
    torch.testing.assert_close(logits[~same], plain[~same])


def test_doubled_captions_matter(
    network: Network, vectors: tuple[torch.Tensor, torch.Tensor]
) -> None:
    one, other = (float(contrast(network, *vectors, t)[0].detach()) for t in (DISTINCT, DOUBLED))
    assert other < one


def test_the_scale_has_a_limit(
    network: Network, vectors: tuple[torch.Tensor, torch.Tensor]
) -> None:
    with torch.no_grad():
        network.log_scale.fill_(20.0)
    loss, _ = contrast(network, *vectors, DISTINCT)
    assert float(loss.detach()) == pytest.approx(info_nce(*vectors, DISTINCT, 100), rel=1e-5)


@pytest.mark.parametrize("tokens", [DISTINCT, DOUBLED])
def test_match_asks_right_pairs_and_wrong_ones(
    network: Network, tokens: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures are told by a number in their tokens, captions by themselves."""
    seen = torch.arange(SIZE).float()[:, None, None].expand(-1, 4, 32)
    same = (tokens[:, None] == tokens).all(dim=2) & ~torch.eye(SIZE, dtype=torch.bool)
    logits = torch.randn(SIZE, SIZE).masked_fill(same, -1e4)
    answer = torch.linspace(-2, 2, 3 * SIZE)
    asked: list[tuple[torch.Tensor, torch.Tensor]] = []
    assert network.fusion is not None

    def spy(given: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        asked.append((given, image[:, 0, 0].long()))
        return answer

    monkeypatch.setattr(network.fusion, "match", spy)
    for _ in range(20):
        loss = match(network, seen, tokens, logits)
    for given, image in asked:
        assert (given[:, 0] == MATCH).all()
        assert torch.equal(image[:SIZE], torch.arange(SIZE))
        assert torch.equal(given[:SIZE, 1:], tokens[:, 1:])
        wrong = (given[SIZE:, 1:] != tokens[image[SIZE:], 1:]).any(dim=1)
        assert wrong.all()
        assert torch.equal(image[SIZE : 2 * SIZE], torch.arange(SIZE))
        assert torch.equal(given[2 * SIZE :, 1:], tokens[:, 1:])
    assert len({tuple(image.tolist()) for _, image in asked}) > 1
    logistic = np.logaddexp(0, np.where(np.arange(3 * SIZE) < SIZE, -1, 1) * answer.numpy())
    weight = np.where(np.arange(3 * SIZE) < SIZE, 2.0, 1.0)
    assert float(loss) == pytest.approx(float((weight * logistic).mean()), rel=1e-5)


def test_wrong_pairs_are_hard_ones(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one wrong caption is far more similar than the others, that one is taken."""
    seen = torch.arange(SIZE).float()[:, None, None].expand(-1, 4, 32)
    logits = torch.zeros(SIZE, SIZE)
    logits[torch.arange(SIZE), (torch.arange(SIZE) + 1) % SIZE] = 50.0
    asked: list[torch.Tensor] = []
    assert network.fusion is not None

    def spy(given: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        asked.extend((given, image[:, 0, 0].long()))
        return torch.zeros(len(given))

    monkeypatch.setattr(network.fusion, "match", spy)
    match(network, seen, DISTINCT, logits)
    given, image = asked
    assert torch.equal(given[SIZE : 2 * SIZE, 1:], DISTINCT.roll(-1, 0)[:, 1:])
    assert torch.equal(image[2 * SIZE :], (torch.arange(SIZE) - 1) % SIZE)


@torch.no_grad()
def test_go_on_ignores_padding(network: Network) -> None:
    seen = torch.randn(SIZE, 4, 32)
    assert network.fusion is not None

    def loss_of(tokens: torch.Tensor) -> float:
        assert network.fusion is not None
        return float(go_on(network, network.fusion.states(tokens, seen), tokens))

    loss = loss_of(DISTINCT)
    wider = torch.nn.functional.pad(DISTINCT, (0, 5), value=PAD)
    assert loss_of(wider) == pytest.approx(loss, rel=1e-5)
    assert loss_of(DISTINCT[:, :4]) == pytest.approx(loss, rel=1e-5)
    logs = network.fusion.logits(DISTINCT[:, :4], seen).log_softmax(dim=-1).numpy()
    expected = [-logs[i, k, DISTINCT[i, k + 1]] for i in range(SIZE) for k in range(3)]
    assert loss == pytest.approx(float(np.mean(expected)), rel=1e-5)


def test_columns_are_drawn_by_their_softmax() -> None:
    torch.manual_seed(0)
    shares = torch.tensor([0.6, 0.3, 0.1, 0.0])
    columns = drawn(shares.log().clamp(min=-1e4).expand(20_000, -1))
    found = torch.bincount(columns, minlength=4) / 20_000
    torch.testing.assert_close(found, shares, atol=0.015, rtol=0)
    assert found[3] == 0


@torch.no_grad()
def test_places() -> None:
    """Zero for a sure, right answer; only the ends of nouns count; no knowledge costs log 12."""
    head = Places(24)
    for weight in head.parameters():
        weight.zero_()
    places = torch.full((2, 5, 2), -1.0)
    places[0, 3] = torch.tensor([0.0, 0.999])
    places[1, 1] = torch.tensor([0.5, 1.0])
    states = torch.randn(2, 5, 24)
    assert float(head(states, places)) == pytest.approx(2 * np.log(12), rel=1e-5)
    head.tell.weight.copy_(100 * torch.eye(24))
    states = torch.zeros(2, 5, 24)
    states[0, 3, [0, 12 + 11]] = 1
    states[1, 1, [6, 12 + 11]] = 1
    assert float(head(states, places)) == pytest.approx(0, abs=1e-5)
    states[0, 0] = 7.0
    assert float(head(states, places)) == pytest.approx(0, abs=1e-5)
    states[1, 1] = states[1, 1].roll(1)
    assert float(head(states, places)) > 10


@torch.no_grad()
def test_patches() -> None:
    """With no knowledge at all: the logarithms of how many colours and shapes there are."""
    patches = Patches(32)
    for weight in patches.parameters():
        weight.zero_()
    aim = torch.randint(0, 8, (2, 4, 2))
    loss = float(patches(torch.randn(2, 4, 32), aim))
    assert loss == pytest.approx(np.log(11) + np.log(8), rel=1e-5)
