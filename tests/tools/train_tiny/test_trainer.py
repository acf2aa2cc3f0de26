"""The loop: the loss falls, the rate follows its schedule, a stopped run goes on."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contrapose.losses.match import sample_hard_negatives
from contrapose.models.tiny.network import (
    END,
    MATCH,
    PAD,
    START,
    TinyConfig,
    TinyNetwork,
    Tokenizer,
)
from contrapose.tune import step
from contrapose.tune.settings import learning_rate_factor
from contrapose.world.captions import VOCABULARY
from tools.train_tiny import trainer
from tools.train_tiny.data import TrainSet, generate_scenes, make_set
from tools.train_tiny.trainer import (
    PatchHead,
    PositionHead,
    TrainingPhase,
    caption_loss,
    contrastive_loss,
    hard_matching_loss,
    train,
)

CONFIG_LOOP = TinyConfig(
    len(Tokenizer(VOCABULARY)), width=32, heads=4, image_layers=1, text_layers=1, fusion_layers=1,
    embedding=16, image_size=24, patch=12, context=32,
)  # fmt: skip
RECIPE = TrainingPhase(scenes=32, steps=30, batch=16, judged=8, warm=5, rate=3e-3)


@pytest.fixture(scope="module")
def data() -> TrainSet:
    return make_set(32, 1, "cpu", image_size=24, workers=1)


def fresh(config: TinyConfig = CONFIG_LOOP) -> TinyNetwork:
    torch.manual_seed(5)
    return TinyNetwork(config).train()


def state(network: TinyNetwork) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in network.parameters()])


def steps(count: int) -> TrainingPhase:
    return TrainingPhase(scenes=32, steps=count, batch=16, judged=8, warm=5, rate=3e-3)


def test_training_lowers_every_loss(data: TrainSet) -> None:
    log: list[dict[str, Any]] = []
    assert train(fresh(), data, RECIPE, log=log.append, every=1) == 30
    assert [line["step"] for line in log] == list(range(1, 31))
    for name in ("itc", "itm", "lm", "patches", "places"):
        values = [line[name] for line in log]
        assert sum(values[-5:]) < sum(values[:5]), name
    assert log[-1]["lm"] < 0.75 * log[0]["lm"]


def test_dual_encoder_has_the_contrastive_loss_only(data: TrainSet) -> None:
    dual = TinyConfig(**{**CONFIG_LOOP.as_dict(), "fusion_layers": 0})
    log: list[dict[str, Any]] = []
    recipe = TrainingPhase(scenes=32, steps=3, batch=16, warm=1, patches=False)
    train(fresh(dual), data, recipe, log=log.append)
    assert [sorted(line) for line in log] == [["itc", "scenes", "seconds", "step"]]


def test_frozen_phase_trains_the_contrastive_loss_only(data: TrainSet) -> None:
    network = fresh()
    before = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    log: list[dict[str, Any]] = []
    train(network, data, replace(RECIPE, frozen=True), log=log.append, every=1)
    changed = {
        name for name, weight in network.named_parameters() if not torch.equal(weight, before[name])
    }
    assert {name.split(".")[0] for name in changed} == {"text", "image", "log_scale"}
    assert [name for name in changed if name.startswith("image")] == ["image.project.weight"]
    assert set(log[-1]) == {"step", "seconds", "scenes", "itc"}
    assert log[-1]["itc"] < log[0]["itc"]


def test_the_same_seed_gives_the_same_weights(data: TrainSet) -> None:
    networks = [fresh(), fresh()]
    for network in networks:
        torch.manual_seed(9)
        train(network, data, steps(4), log=lambda _: None)
    one, other = map(state, networks)
    assert torch.equal(one, other)
    assert not torch.equal(one, state(fresh()))


def test_stopped_run_resumes_at_the_next_step(
    data: TrainSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[int] = []
    plain = learning_rate_factor

    def spy(step: int, *schedule: Any) -> float:
        called.append(step)
        return plain(step, *schedule)

    monkeypatch.setattr(trainer, "learning_rate_factor", spy)
    keep = tmp_path / "kept.pt"
    first = fresh()
    assert train(first, data, steps(6), checkpoint=keep, log=lambda _: None) == 6
    kept = torch.load(keep, weights_only=True)
    assert kept["step"] == 6
    assert torch.equal(kept["network"]["0.log_scale"], first.log_scale.detach())

    # With the steps done already, the weights are those of the first run, to the bit.
    other = fresh()
    assert train(other, data, steps(6), checkpoint=keep, log=lambda _: None) == 6
    assert torch.equal(state(other), state(first))

    # Two runs that go on from one place end in one place, with the optimizer's memory of both.
    content, ends = keep.read_bytes(), []
    for _ in range(2):
        keep.write_bytes(content)
        called.clear()
        network = fresh()
        torch.manual_seed(9)
        assert train(network, data, steps(10), checkpoint=keep, log=lambda _: None) == 10
        assert sorted(set(called)) == [6, 7, 8, 9]
        ends.append(state(network))
    assert torch.equal(*ends)
    assert not torch.equal(ends[0], state(first))
    kept = torch.load(keep, weights_only=True)
    assert kept["step"] == 10
    assert {int(each["step"]) for each in kept["optimizer"]["state"].values()} == {10}


def test_resuming_is_not_restarting(data: TrainSet, tmp_path: Path) -> None:
    """A run in two parts learns about as much as one in one part, and more than its first part."""
    keep = tmp_path / "kept.pt"
    log: dict[str, list[dict[str, Any]]] = {"whole": [], "first": [], "second": []}
    train(fresh(), data, RECIPE, log=log["whole"].append)
    train(fresh(), data, steps(15), checkpoint=keep, log=log["first"].append)
    train(fresh(), data, RECIPE, checkpoint=keep, log=log["second"].append)
    whole, first, second = (log[name][-1]["lm"] for name in ("whole", "first", "second"))
    assert second < first
    assert second == pytest.approx(whole, rel=0.25)


def test_set_grows_during_training() -> None:
    source = generate_scenes(1, "cpu", image_size=24, workers=1, block=16)
    log: list[dict[str, Any]] = []
    recipe = TrainingPhase(scenes=60, first=20, new=4, steps=12, batch=16, judged=8, warm=1)
    with closing(source):
        train(fresh(), TrainSet(60, source), recipe, log=log.append, every=1)
    ready = [line["scenes"] for line in log]
    assert ready == sorted(ready)
    assert all(there >= min(60, 20 + 4 * i) for i, there in enumerate(ready))
    assert ready[0] < 60 == ready[-1]


def test_loss_that_is_not_finite_stops_training(data: TrainSet) -> None:
    network = fresh()
    with torch.no_grad():
        network.text.project.weight.fill_(math.nan)
    with pytest.raises(FloatingPointError, match="step 2"):
        train(network, data, RECIPE, log=lambda _: None, every=2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_captured_steps_equal_eager_steps() -> None:
    data = make_set(64, 1, "cuda", image_size=24, workers=1)
    ends = []
    for warm in (3, 1000):
        torch.manual_seed(5)
        network = TinyNetwork(CONFIG_LOOP).cuda().train()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(step, "WARMUP_STEPS", warm)
            log: list[dict[str, Any]] = []
            train(network, data, replace(steps(12), scenes=64), log=log.append, every=12)
        ends.append(log[-1]["lm"])
    assert ends[0] == pytest.approx(ends[1], rel=0.05)


def test_zero_time_limit(data: TrainSet) -> None:
    network = fresh()
    assert train(network, data, RECIPE, stop_after=0.0, log=lambda _: None) == 0
    assert torch.equal(state(network), state(fresh()))


def test_training_stops_at_the_time_limit(data: TrainSet, tmp_path: Path) -> None:
    keep = tmp_path / "kept.pt"
    long = TrainingPhase(scenes=32, steps=100_000, batch=16, judged=8, warm=1)
    done = train(fresh(), data, long, checkpoint=keep, stop_after=0.3, log=lambda _: None)
    assert 0 < done < 1000
    assert torch.load(keep, weights_only=True)["step"] == done


SIZE = 6
CONFIG_LOSSES = TinyConfig(
    40, width=32, heads=4, image_layers=1, text_layers=1, fusion_layers=1, embedding=16,
    image_size=24, patch=12, context=12,
)  # fmt: skip


@pytest.fixture
def network() -> TinyNetwork:
    torch.manual_seed(1)
    return TinyNetwork(CONFIG_LOSSES).eval()


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
def test_contrastive_loss(
    network: TinyNetwork, vectors: tuple[torch.Tensor, torch.Tensor], tokens: torch.Tensor
) -> None:
    loss, logits = contrastive_loss(network, *vectors, tokens)
    scale = float(network.log_scale.detach().exp())
    assert float(loss.detach()) == pytest.approx(info_nce(*vectors, tokens, scale), rel=1e-5)
    assert not logits.requires_grad
    same = (tokens[:, None] == tokens).all(dim=2) & ~torch.eye(SIZE, dtype=torch.bool)
    assert (logits[same] == -1e4).all()
    plain = scale * vectors[0] @ vectors[1].T
    torch.testing.assert_close(logits[~same], plain[~same])


def test_doubled_captions_matter(
    network: TinyNetwork, vectors: tuple[torch.Tensor, torch.Tensor]
) -> None:
    one, other = (
        float(contrastive_loss(network, *vectors, t)[0].detach()) for t in (DISTINCT, DOUBLED)
    )
    assert other < one


def test_the_scale_has_a_limit(
    network: TinyNetwork, vectors: tuple[torch.Tensor, torch.Tensor]
) -> None:
    with torch.no_grad():
        network.log_scale.fill_(20.0)
    loss, _ = contrastive_loss(network, *vectors, DISTINCT)
    assert float(loss.detach()) == pytest.approx(info_nce(*vectors, DISTINCT, 100), rel=1e-5)


@pytest.mark.parametrize("tokens", [DISTINCT, DOUBLED])
def test_matching_loss_scores_right_and_wrong_pairs(
    network: TinyNetwork, tokens: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images are told by a number in their tokens, captions by themselves."""
    seen = torch.arange(SIZE).float()[:, None, None].expand(-1, 4, 32)
    same = (tokens[:, None] == tokens).all(dim=2) & ~torch.eye(SIZE, dtype=torch.bool)
    logits = torch.randn(SIZE, SIZE).masked_fill(same, -1e4)
    answer = torch.linspace(-2, 2, 3 * SIZE)
    called: list[tuple[torch.Tensor, torch.Tensor]] = []
    assert network.fusion is not None

    def spy(given: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        called.append((given, image[:, 0, 0].long()))
        return answer

    monkeypatch.setattr(network.fusion, "match", spy)
    for _ in range(20):
        loss = hard_matching_loss(network, seen, tokens, logits)
    for given, image in called:
        assert (given[:, 0] == MATCH).all()
        assert torch.equal(image[:SIZE], torch.arange(SIZE))
        assert torch.equal(given[:SIZE, 1:], tokens[:, 1:])
        wrong = (given[SIZE:, 1:] != tokens[image[SIZE:], 1:]).any(dim=1)
        assert wrong.all()
        assert torch.equal(image[SIZE : 2 * SIZE], torch.arange(SIZE))
        assert torch.equal(given[2 * SIZE :, 1:], tokens[:, 1:])
    assert len({tuple(image.tolist()) for _, image in called}) > 1
    logistic = np.logaddexp(0, np.where(np.arange(3 * SIZE) < SIZE, -1, 1) * answer.numpy())
    weight = np.where(np.arange(3 * SIZE) < SIZE, 2.0, 1.0)
    assert float(loss) == pytest.approx(float((weight * logistic).mean()), rel=1e-5)


def test_wrong_pairs_are_hard_ones(network: TinyNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one wrong caption is far more similar than the others, that one is taken."""
    seen = torch.arange(SIZE).float()[:, None, None].expand(-1, 4, 32)
    logits = torch.zeros(SIZE, SIZE)
    logits[torch.arange(SIZE), (torch.arange(SIZE) + 1) % SIZE] = 50.0
    called: list[torch.Tensor] = []
    assert network.fusion is not None

    def spy(given: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        called.extend((given, image[:, 0, 0].long()))
        return torch.zeros(len(given))

    monkeypatch.setattr(network.fusion, "match", spy)
    hard_matching_loss(network, seen, DISTINCT, logits)
    given, image = called
    assert torch.equal(given[SIZE : 2 * SIZE, 1:], DISTINCT.roll(-1, 0)[:, 1:])
    assert torch.equal(image[2 * SIZE :], (torch.arange(SIZE) - 1) % SIZE)


@torch.no_grad()
def test_caption_loss_ignores_padding(network: TinyNetwork) -> None:
    seen = torch.randn(SIZE, 4, 32)
    assert network.fusion is not None

    def loss_of(tokens: torch.Tensor) -> float:
        assert network.fusion is not None
        return float(caption_loss(network, network.fusion.states(tokens, seen), tokens))

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
    columns = sample_hard_negatives(shares.log().clamp(min=-1e4).expand(20_000, -1))
    found = torch.bincount(columns, minlength=4) / 20_000
    torch.testing.assert_close(found, shares, atol=0.015, rtol=0)
    assert found[3] == 0


@torch.no_grad()
def test_position_head() -> None:
    """Zero for a sure, right answer; only the ends of nouns count; no knowledge costs log 12."""
    head = PositionHead(24)
    for weight in head.parameters():
        weight.zero_()
    places = torch.full((2, 5, 2), -1.0)
    places[0, 3] = torch.tensor([0.0, 0.999])
    places[1, 1] = torch.tensor([0.5, 1.0])
    states = torch.randn(2, 5, 24)
    assert float(head(states, places)) == pytest.approx(2 * np.log(12), rel=1e-5)
    head.project.weight.copy_(100 * torch.eye(24))
    states = torch.zeros(2, 5, 24)
    states[0, 3, [0, 12 + 11]] = 1
    states[1, 1, [6, 12 + 11]] = 1
    assert float(head(states, places)) == pytest.approx(0, abs=1e-5)
    states[0, 0] = 7.0
    assert float(head(states, places)) == pytest.approx(0, abs=1e-5)
    states[1, 1] = states[1, 1].roll(1)
    assert float(head(states, places)) > 10


@torch.no_grad()
def test_patch_head() -> None:
    """With no knowledge at all: the logarithms of how many colors and shapes there are."""
    patches = PatchHead(32)
    for weight in patches.parameters():
        weight.zero_()
    aim = torch.randint(0, 8, (2, 4, 2))
    loss = float(patches(torch.randn(2, 4, 32), aim))
    assert loss == pytest.approx(np.log(11) + np.log(8), rel=1e-5)
