from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from contrapose.losses import InfoNCE, LossBatch
from contrapose.tune import step as steps
from contrapose.tune import trainer
from contrapose.tune.feed import Feed
from contrapose.tune.objective import parse_objective
from contrapose.tune.settings import Settings
from contrapose.tune.step import (
    CudaGraphStep,
    EncoderOutputs,
    TrainingStep,
    backward_in_micro_batches,
    can_record,
    split_rows,
)
from contrapose.tune.trainer import train
from tests.tune.small import small_rows, small_student, weights


@pytest.mark.parametrize("pieces", [2, 3, 7])
def test_gradients_are_those_of_the_whole_batch(pieces: int) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(7, 5, dtype=torch.float64), torch.randn(7, 5, dtype=torch.float64)
    one, other = (nn.Linear(5, 3, dtype=torch.float64) for _ in range(2))

    def unit(v: Tensor) -> Tensor:
        return nn.functional.normalize(v, dim=-1)

    InfoNCE()(LossBatch(unit(one(x)), unit(other(y)))).backward()  # type: ignore[no-untyped-call]
    expected = [weight.grad for weight in (*one.parameters(), *other.parameters())]
    one.zero_grad()
    other.zero_grad()
    encoders = {
        "image": lambda rows: (unit(one(x[rows])),),
        "text": lambda rows: (unit(other(y[rows])),),
    }
    backward_in_micro_batches(
        encoders, split_rows(7, pieces), lambda v: InfoNCE()(LossBatch(v["image"], v["text"]))
    )
    found = [weight.grad for weight in (*one.parameters(), *other.parameters())]
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_further_losses_of_a_piece_add_to_its_gradients() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 4, dtype=torch.float64)
    body, head = (nn.Linear(4, 4, dtype=torch.float64) for _ in range(2))

    def encode(rows: slice) -> EncoderOutputs:
        states = body(x[rows]).tanh()
        return states.mean(1, keepdim=True), states

    def further(vectors: Tensor, states: Tensor) -> Tensor:
        return (head(states).square().sum() * 0.3) + vectors.pow(3).sum()  # type: ignore[no-any-return]

    def whole(vectors: Tensor) -> Tensor:
        return (vectors @ vectors.T).logsumexp(1).sum()

    vectors, states = encode(slice(0, 5))
    (whole(vectors) + further(vectors, states)).backward()  # type: ignore[no-untyped-call]
    weights = [*body.parameters(), *head.parameters()]
    expected = [weight.grad for weight in weights]
    body.zero_grad()
    head.zero_grad()
    some = split_rows(5, 3)
    asked: list[int] = []

    def beside(number: int, made: EncoderOutputs) -> None:
        asked.append(number)
        further(*made).backward()  # type: ignore[no-untyped-call]

    backward_in_micro_batches({"x": encode}, some, lambda v: whole(v["x"]), {"x": beside})
    assert asked == [0, 1, 2]
    for weight, theirs in zip(weights, expected, strict=True):
        torch.testing.assert_close(weight.grad, theirs, rtol=1e-10, atol=1e-12)


def test_no_piece_is_empty() -> None:
    assert split_rows(7, 3) == [slice(0, 2), slice(2, 4), slice(4, 7)]
    assert split_rows(2, 5) == [slice(0, 1), slice(1, 2)]


def test_dropout_draws_the_same_twice() -> None:
    torch.manual_seed(1)
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    x = torch.randn(6, 4)
    drawn: list[Tensor] = []

    def kept(rows: slice) -> EncoderOutputs:
        made = layer(x[rows])
        drawn.append(made.detach().clone())
        return (made,)

    backward_in_micro_batches({"x": kept}, split_rows(6, 2), lambda v: v["x"].square().sum())
    assert len(drawn) == 4
    assert torch.equal(drawn[0], drawn[2])
    assert torch.equal(drawn[1], drawn[3])
    assert not torch.equal(drawn[0], drawn[1])


@pytest.mark.parametrize(
    "objective",
    ["plain", "hp+hn", "eqsim+hn", "dividend+hn", "dividend", "infonce-hn+hn+hp:symmetric=no"],
)
def test_a_step_in_micro_batches_gives_the_same_gradients(objective: str) -> None:
    found = []
    for pieces in (1, 3):
        student = small_student()
        settings = Settings(steps=1, batch=6, pieces=pieces)
        chosen = parse_objective(objective).for_model(matches=False, writes=False, hides=True)
        feed = Feed(
            small_rows(), student, settings,
            needs={"negative", "positive", *chosen.needs},
        )  # fmt: skip
        lesson = TrainingStep(student, chosen, settings, feed, None, "cpu")
        losses = lesson.backward(feed.batch(0))
        grads = {n: w.grad for n, w in student.network.named_parameters() if w.grad is not None}
        found.append((losses, grads))
    (whole, expected), (pieced, grads) = found
    assert whole.keys() == pieced.keys()
    assert grads.keys() == expected.keys()
    for name, grad in grads.items():
        near = 3e-6 * max(1.0, float(expected[name].abs().max()))
        torch.testing.assert_close(grad, expected[name], rtol=1e-4, atol=near, msg=name)


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
    monkeypatch.setattr(steps, "GraphReplay", Replayed)
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
