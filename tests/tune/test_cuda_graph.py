from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from contrapose.tune import cuda_graph, trainer
from contrapose.tune.cuda_graph import CudaGraphStep, can_record
from contrapose.tune.feed import Feed
from contrapose.tune.objective import parse_objective
from contrapose.tune.settings import Settings
from contrapose.tune.step import TrainingStep
from contrapose.tune.trainer import train
from tests.tune.small import small_rows, small_student, weights


def lesson(objective: str = "hp+hn", device: str = "cpu", pieces: int = 1) -> TrainingStep:
    student = small_student(fusion=objective == "itm")
    rows, how = small_rows(), Settings(steps=4, batch=6, pieces=pieces)
    feed = Feed(rows, student, how, needs={"negative", "positive"})
    chosen = parse_objective(objective).for_model(matches=student.matches, writes=False, hides=True)
    return TrainingStep(student, chosen, how, feed, None, device)


class Replayed:
    """Stands for a CUDA graph: it reads and writes where it did when it was recorded."""

    def __init__(self, step: Callable[..., dict[str, Tensor]]):
        self.step = step
        self.inputs: tuple[Tensor, ...] = ()
        self.slopes: list[Tensor | None] = []
        self.weights: list[nn.Parameter] = []

    def __call__(self, *inputs: Tensor) -> dict[str, Tensor]:
        if not self.inputs:
            self.inputs = tuple(it.clone() for it in inputs)
            losses = self.step(*self.inputs)
            self.slopes = [weight.grad for weight in self.weights]
            return losses
        for mine, given in zip(self.inputs, inputs, strict=True):
            mine.copy_(given)
        losses = self.step(*self.inputs)
        for weight, slope in zip(self.weights, self.slopes, strict=True):
            if slope is not None and weight.grad is not None:
                slope.copy_(weight.grad)
            weight.grad = None  # a graph does not know of weights
        return losses


def test_gradients_and_losses_of_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graph, "GraphReplay", Replayed)
    one, other = lesson(), lesson()
    mine, theirs = (list(it.student.network.parameters()) for it in (one, other))
    replay = CudaGraphStep(one, mine)
    replay.captured.weights = mine  # type: ignore[attr-defined]
    for step in range(4):
        for weight in (*mine, *theirs):
            weight.grad = None
        losses = replay.backward(one.feed.batch(step))
        expected = other.backward(other.feed.batch(step))
        assert losses == expected
        for weight, same in zip(mine, theirs, strict=True):
            assert (weight.grad is None) == (same.grad is None)
            if weight.grad is not None and same.grad is not None:
                assert torch.equal(weight.grad, same.grad)


def test_where_it_cannot() -> None:
    assert not can_record(lesson())  # on a CPU
    assert can_record(lesson(device="cuda"))
    assert not can_record(lesson(device="cuda", pieces=2))
    assert not can_record(lesson("itm", device="cuda"))  # wrong pairs are chosen on the way
    assert not can_record(lesson("dividend", device="cuda"))
    moody = lesson(device="cuda")
    moody.student.steady = False  # type: ignore[misc]
    assert not can_record(moody)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    "objective", ["plain", "hp+hn", "hp-even+hn", "eqsim+hn", "infonce-hn+hp:symmetric=no"]
)
def test_a_gpu_learns_the_same(monkeypatch: pytest.MonkeyPatch, objective: str) -> None:
    settings = Settings(steps=20, batch=6, rate=1e-3)
    found = []
    for can in (can_record, lambda _: False):
        monkeypatch.setattr(trainer, "can_record", can)
        student = small_student()
        student.network.cuda()
        train(student, small_rows(), parse_objective(objective), settings, device="cuda")
        found.append(weights(student))
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-4)
