from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from contrapose.losses import InfoNCE, LossBatch
from contrapose.tune.feed import Feed
from contrapose.tune.objective import parse_objective
from contrapose.tune.settings import Settings
from contrapose.tune.step import EncoderOutputs, TrainingStep, backward_in_micro_batches, split_rows
from tests.tune.small import small_rows, small_student


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
