"""The loop: the loss falls, the rate follows its schedule, a stopped run goes on."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from contrapose.models.tiny.network import Config, Network
from contrapose.models.tiny.tokeniser import Tokeniser
from contrapose.world.captions import VOCABULARY
from contrapose.world.train import captured, loop
from contrapose.world.train.data import TrainSet, make_set
from contrapose.world.train.loop import Recipe, schedule, train
from contrapose.world.train.supply import supply

CONFIG = Config(
    len(Tokeniser(VOCABULARY)), width=32, heads=4, image_layers=1, text_layers=1, fusion_layers=1,
    embedding=16, image_size=24, patch=12, context=32,
)  # fmt: skip
RECIPE = Recipe(scenes=32, steps=30, batch=16, judged=8, warm=5, rate=3e-3)


@pytest.fixture(scope="module")
def data() -> TrainSet:
    return make_set(32, 1, "cpu", image_size=24, workers=1)


def fresh(config: Config = CONFIG) -> Network:
    torch.manual_seed(5)
    return Network(config).train()


def state(network: Network) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in network.parameters()])


def steps(count: int) -> Recipe:
    return Recipe(scenes=32, steps=count, batch=16, judged=8, warm=5, rate=3e-3)


@pytest.mark.parametrize(
    ("step", "gone", "expected"),
    [
        (0, 0.0, 0.1),
        (4, 0.0, 0.5),
        (9, 0.0, 1.0),
        (10, 0.0, 1.0),
        (60, 0.0, 0.5),
        (110, 0.0, 0.0),
        (200, 0.0, 0.0),
        (35, 0.0, 0.5 + math.sqrt(0.125)),
        (35, 0.5, 0.5),
        (60, 0.2, 0.5),
        (10, 1.0, 0.0),
        (10, 3.0, 0.0),
    ],
)
def test_schedule(step: int, gone: float, expected: float) -> None:
    recipe = Recipe(scenes=1, steps=110, warm=10)
    assert schedule(step, recipe, gone) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("warm", [0, 5, 50])
def test_rates_are_never_negative(warm: int) -> None:
    rates = [schedule(i, Recipe(scenes=1, steps=50, warm=warm)) for i in range(50)]
    assert min(rates) > 0
    assert max(rates) <= 1


def test_training_lowers_every_loss(data: TrainSet) -> None:
    told: list[dict[str, Any]] = []
    assert train(fresh(), data, RECIPE, log=told.append, every=1) == 30
    assert [line["step"] for line in told] == list(range(1, 31))
    for name in ("itc", "itm", "lm", "patches", "places"):
        values = [line[name] for line in told]
        assert sum(values[-5:]) < sum(values[:5]), name
    assert told[-1]["lm"] < 0.75 * told[0]["lm"]


def test_a_dual_encoder_has_the_contrast_alone(data: TrainSet) -> None:
    dual = Config(**{**CONFIG.as_dict(), "fusion_layers": 0})
    told: list[dict[str, Any]] = []
    recipe = Recipe(scenes=32, steps=3, batch=16, warm=1, patches=False)
    train(fresh(dual), data, recipe, log=told.append)
    assert [sorted(line) for line in told] == [["itc", "scenes", "seconds", "step"]]


def test_a_frozen_phase_teaches_the_contrast_alone(data: TrainSet) -> None:
    network = fresh()
    before = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    told: list[dict[str, Any]] = []
    train(network, data, replace(RECIPE, frozen=True), log=told.append, every=1)
    changed = {
        name for name, weight in network.named_parameters() if not torch.equal(weight, before[name])
    }
    assert {name.split(".")[0] for name in changed} == {"text", "image", "log_scale"}
    assert [name for name in changed if name.startswith("image")] == ["image.project.weight"]
    assert set(told[-1]) == {"step", "seconds", "scenes", "itc"}
    assert told[-1]["itc"] < told[0]["itc"]


def test_the_same_seed_gives_the_same_weights(data: TrainSet) -> None:
    networks = [fresh(), fresh()]
    for network in networks:
        torch.manual_seed(9)
        train(network, data, steps(4), log=lambda _: None)
    one, other = map(state, networks)
    assert torch.equal(one, other)
    assert not torch.equal(one, state(fresh()))


def test_a_stopped_run_goes_on_at_the_next_step(
    data: TrainSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    plain = loop.schedule

    def spy(step: int, recipe: Recipe, time_gone: float = 0.0) -> float:
        asked.append(step)
        return plain(step, recipe, time_gone)

    monkeypatch.setattr(loop, "schedule", spy)
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

    # Two runs that go on from one place end in one place, with the optimiser's memory of both.
    content, ends = keep.read_bytes(), []
    for _ in range(2):
        keep.write_bytes(content)
        asked.clear()
        network = fresh()
        torch.manual_seed(9)
        assert train(network, data, steps(10), checkpoint=keep, log=lambda _: None) == 10
        assert sorted(set(asked)) == [6, 7, 8, 9]
        ends.append(state(network))
    assert torch.equal(*ends)
    assert not torch.equal(ends[0], state(first))
    kept = torch.load(keep, weights_only=True)
    assert kept["step"] == 10
    assert {int(each["step"]) for each in kept["optimiser"]["state"].values()} == {10}


def test_going_on_is_not_starting_again(data: TrainSet, tmp_path: Path) -> None:
    """A run in two parts learns about as much as one in one part, and more than its first part."""
    keep = tmp_path / "kept.pt"
    told: dict[str, list[dict[str, Any]]] = {"whole": [], "first": [], "second": []}
    train(fresh(), data, RECIPE, log=told["whole"].append)
    train(fresh(), data, steps(15), checkpoint=keep, log=told["first"].append)
    train(fresh(), data, RECIPE, checkpoint=keep, log=told["second"].append)
    whole, first, second = (told[name][-1]["lm"] for name in ("whole", "first", "second"))
    assert second < first
    assert second == pytest.approx(whole, rel=0.25)


def test_scenes_come_while_training_goes_on() -> None:
    source = supply(1, "cpu", image_size=24, workers=1, block=16)
    told: list[dict[str, Any]] = []
    recipe = Recipe(scenes=60, first=20, new=4, steps=12, batch=16, judged=8, warm=1)
    with closing(source):
        train(fresh(), TrainSet(60, source), recipe, log=told.append, every=1)
    ready = [line["scenes"] for line in told]
    assert ready == sorted(ready)
    assert all(there >= min(60, 20 + 4 * i) for i, there in enumerate(ready))
    assert ready[0] < 60 == ready[-1]


def test_a_loss_that_is_no_number_ends_it(data: TrainSet) -> None:
    network = fresh()
    with torch.no_grad():
        network.text.project.weight.fill_(math.nan)
    with pytest.raises(FloatingPointError, match="the loss is no number at step 2"):
        train(network, data, RECIPE, log=lambda _: None, every=2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_captured_steps_are_the_usual_ones() -> None:
    data = make_set(64, 1, "cuda", image_size=24, workers=1)
    ends = []
    for warm in (3, 1000):
        torch.manual_seed(5)
        network = Network(CONFIG).cuda().train()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(captured, "WARM", warm)
            told: list[dict[str, Any]] = []
            train(network, data, replace(steps(12), scenes=64), log=told.append, every=12)
        ends.append(told[-1]["lm"])
    assert ends[0] == pytest.approx(ends[1], rel=0.05)


def test_no_time_at_all(data: TrainSet) -> None:
    network = fresh()
    assert train(network, data, RECIPE, stop_after=0.0, log=lambda _: None) == 0
    assert torch.equal(state(network), state(fresh()))


def test_stopping_when_the_time_is_over(data: TrainSet, tmp_path: Path) -> None:
    keep = tmp_path / "kept.pt"
    long = Recipe(scenes=32, steps=100_000, batch=16, judged=8, warm=1)
    done = train(fresh(), data, long, checkpoint=keep, stop_after=0.3, log=lambda _: None)
    assert 0 < done < 1000
    assert torch.load(keep, weights_only=True)["step"] == done
