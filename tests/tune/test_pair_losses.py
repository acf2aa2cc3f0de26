"""Losses on pairs in pieces are those of the unbroken batch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from contrapose.tune.distill import Distiller
from contrapose.tune.feed import Feed, TrainingBatch
from contrapose.tune.objective import (
    BatchVectors,
    Objective,
    loss_batch,
    parse_objective,
    vector_losses,
    weighted_sum,
)
from contrapose.tune.pair_losses import PairLosses, Teacher
from contrapose.tune.parameters import select_trainable
from contrapose.tune.settings import Settings
from contrapose.tune.step import TrainingStep, split_rows
from contrapose.tune.students import ImageOutputs, load_student
from tests.models.hf.small_fusion import bert_tokenizer, hf, saved
from tests.models.hf.test_blip import config, processor
from tests.tune.small import small_rows, small_student

SIZE = 7
MATCH = "eqsim=2:sampled=4:close=2:margin=0.001:margin_v1=0"
NEEDS = {"negative", "positive", "coarse"}
Gradients = dict[str, Tensor]


def settings(pieces: int, **changes: Any) -> Settings:
    return Settings(steps=1, batch=SIZE, pieces=pieces, **changes)


def exact_feed() -> tuple[Any, Feed, TrainingBatch]:
    """A small student that judges and writes, all in float64."""
    student = small_student(fusion=True)
    feed = Feed(small_rows(kept=False), student, settings(1), needs=NEEDS)
    student.network.double()
    batch = feed.batch(0)
    return student, feed, replace(batch, pixels={"pixels": batch.pixels["pixels"].double()})


def learnt(
    student: Any, feed: Feed, batch: TrainingBatch, objective: Objective, pieces: int,
    teacher: Teacher | None = None,
) -> tuple[dict[str, Tensor], Gradients]:  # fmt: skip
    chosen = objective.for_model(matches=student.matches, writes=student.writes)
    student.network.zero_grad()
    torch.manual_seed(3)
    lesson = TrainingStep(student, chosen, settings(pieces), feed, teacher, "cpu")
    losses = lesson.backward(batch)
    return losses, gradients(student)


def gradients(student: Any) -> Gradients:
    named = student.network.named_parameters()
    return {name: w.grad.clone() for name, w in named if w.grad is not None}


def assert_alike(found: Gradients, expected: Gradients, rtol: float, atol: float) -> None:
    assert found.keys() == expected.keys()
    for name, grad in found.items():
        torch.testing.assert_close(grad, expected[name], rtol=rtol, atol=atol, msg=name)


class Decided(Distiller):
    """Asks its float32 model but once: in pieces it would give other last digits."""

    def aims(self, batch: TrainingBatch, choices: Any, rows: slice = slice(None)) -> Any:
        if not hasattr(self, "every"):
            self.every = super().aims(batch, self.choices(batch))
        np.testing.assert_allclose(self.every[rows], super().aims(batch, choices, rows), rtol=1e-3)
        return self.every[rows]


@pytest.mark.parametrize("pieces", [2, 3, SIZE])
@pytest.mark.parametrize(
    "name", ["itm=0.7+lm=0.4", "hp=0.5+hn", "distill=2", "hn+eqsim+distill", MATCH]
)
def test_pieces_teach_what_the_whole_batch_does(name: str, pieces: int) -> None:
    student, feed, batch = exact_feed()
    assert not batch.has_negative.all()  # pieces differ in how many there are
    objective = parse_objective(name)
    teacher = None
    if "teacher" in objective.needs:
        teacher = Decided(small_student(fusion=True, seed=4).model, feed, others=2)
    losses, expected = learnt(student, feed, batch, objective, 1, teacher)
    in_pieces, found = learnt(student, feed, batch, objective, pieces, teacher)
    assert in_pieces.keys() == losses.keys() > {"itm", "lm"}
    for key, loss in losses.items():
        rtol = 1e-9 if loss.dtype == torch.float64 else 1e-6
        torch.testing.assert_close(in_pieces[key], loss, rtol=rtol, atol=1e-12, msg=key)
    assert any(name.startswith("fusion.") for name in found)
    # Vectors are float32 at the end, and a teacher's captions are read anew for each piece.
    rtol, atol = (1e-5, 1e-6) if teacher else (1e-8, 1e-11)
    assert_alike(found, expected, rtol, atol)


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> Any:
    def make(dropout: float) -> Any:
        chosen = config()
        chosen.text_config.hidden_dropout_prob = dropout
        chosen.text_config.attention_probs_dropout_prob = dropout
        chosen.vision_config.attention_dropout = dropout
        torch.manual_seed(0)
        network = hf.BlipForImageTextRetrieval(chosen)
        with torch.no_grad():
            for weight in network.parameters():
                if weight.dim() > 1:
                    weight.mul_(4)  # far enough apart that inputs give clearly different vectors
        folder: Path = tmp_path_factory.mktemp("blip")
        return load_student(str(saved(folder, network, bert_tokenizer(), processor())))

    return make


def blip_feed(student: Any) -> Feed:
    return Feed(small_rows(kept=False), student, settings(1), needs=NEEDS)


@pytest.mark.parametrize("pieces", [2, SIZE])
def test_of_the_transformers_library(blip: Any, pieces: int) -> None:
    student = blip(0.0)
    select_trainable(student, settings(pieces))
    feed = blip_feed(student)
    objective = parse_objective("hp+hn+eqsim:sampled=3:close=2")
    losses, expected = learnt(student, feed, feed.batch(0), objective, 1)
    in_pieces, found = learnt(student, feed, feed.batch(0), objective, pieces)
    assert {"itm", "itm_hn", "itm_hp", "eqsim-match"} < losses.keys()
    for each, loss in losses.items():
        torch.testing.assert_close(in_pieces[each], loss, rtol=1e-4, atol=1e-5, msg=each)
    assert_alike(found, expected, 1e-3, 2e-5)


def test_dropout_is_that_of_one_pass(blip: Any) -> None:
    """As if each piece had been made once, and kept with all that its gradients need."""
    student = blip(0.3)
    feed = blip_feed(student)
    batch, pieces = feed.batch(0), 3
    objective = parse_objective("hp+hn").for_model(matches=True, writes=False)
    select_trainable(student, settings(pieces))
    assert student.network.training
    torch.manual_seed(3)
    some = split_rows(SIZE, pieces)
    seen = [student.see({k: it[rows] for k, it in batch.pixels.items()}) for rows in some]
    read = {
        name: torch.cat([student.read({k: it[rows] for k, it in tokens.items()}) for rows in some])
        for name in ("text", "negative", "positive")
        if (tokens := getattr(batch, name)) is not None
    }
    vectors = BatchVectors(torch.cat([it.vectors for it in seen]), **read)
    inputs = loss_batch(student, vectors, batch)
    losses = vector_losses(student, objective, inputs)
    paired = PairLosses(student, objective, None, batch, inputs, some)
    for number in range(pieces):
        for name, ask in paired.of(number, seen[number], 3 * len(seen[number].vectors)):
            losses[name] = losses.get(name, torch.zeros(())) + ask()
    student.network.zero_grad()
    weighted_sum(objective, losses).backward()  # type: ignore[no-untyped-call]
    expected = gradients(student)
    in_pieces, found = learnt(student, feed, batch, objective, pieces)
    for each, loss in losses.items():
        torch.testing.assert_close(in_pieces[each], loss.detach(), rtol=1e-4, atol=1e-5, msg=each)
    assert_alike(found, expected, 1e-3, 2e-5)
    _, otherwise = learnt(student, feed, batch, objective, 1)
    name = "vision_proj.weight"
    assert not torch.allclose(otherwise[name], expected[name], rtol=1e-2, atol=1e-4)


def test_dropout_of_sampled_pairs_is_the_same_in_both_passes(blip: Any) -> None:
    """The gradient by the logits belongs to the logits that are judged again."""
    student = blip(0.3)
    feed = blip_feed(student)
    select_trainable(student, settings(3))
    batch, some = feed.batch(0), split_rows(SIZE, 3)
    torch.manual_seed(3)
    step = TrainingStep(
        student,
        parse_objective("eqsim-match:sampled=4").for_model(matches=True, writes=False),
        settings(3), feed, None, "cpu",
    )  # fmt: skip
    (scores,) = step._sampled_scores(batch).values()
    states = [student.see({k: it[rows] for k, it in batch.pixels.items()}).states for rows in some]
    for rows, state in zip(some, states, strict=True):
        scores.judge(rows, state, 4)
    assert scores._logits is not None
    first = scores._logits.clone()
    scores.value()
    assert scores._gradient is not None
    scores._gradient.fill_(1)
    for rows, state in zip(some, states, strict=True):
        torch.rand(2)
        again = torch.stack([it() for it in scores.surrogates(rows, state, 4)]).sum()
        torch.testing.assert_close(again.detach(), first[scores._pairs(rows)].sum())


def test_wrong_pairs_come_from_the_whole_batch() -> None:
    student, _, batch = exact_feed()
    objective = parse_objective("plain").for_model(matches=True, writes=False)
    judged: list[tuple[int, int]] = []
    some = split_rows(SIZE, 3)
    with torch.no_grad():
        seen = student.see(batch.pixels)
        vectors = BatchVectors(seen.vectors, student.read(batch.text))
        inputs = loss_batch(student, vectors, batch)
        keys = {tuple(row): i for i, row in enumerate(batch.text["tokens"].tolist())}
        paired = PairLosses(student, objective, None, batch, inputs, some)

        def match(states: Tensor, tokens: dict[str, Tensor], first: int) -> Tensor:
            for state, row in zip(states, tokens["tokens"].tolist(), strict=True):
                near = (seen.states - state).flatten(1).abs().sum(1)
                judged.append((int(near.argmin()), keys[tuple(row)]))
            return states.new_zeros(len(states))

        for number, rows in enumerate(some):
            student.match = partial(match, first=rows.start)
            before = len(judged)
            for _, ask in paired.of(number, ImageOutputs(seen.vectors[rows], seen.states[rows]), 2):
                ask()
            assert {image for image, _ in judged[before:]} == set(range(rows.start, rows.stop))
    right = [pair for pair in judged if pair[0] == pair[1]]
    wrong = [pair for pair in judged if pair[0] != pair[1]]
    assert sorted(right) == [(i, i) for i in range(SIZE)]
    assert len(wrong) == 2 * SIZE
    piece = {row: number for number, rows in enumerate(some) for row in range(SIZE)[rows]}
    assert any(piece[image] != piece[text] for image, text in wrong)


@pytest.mark.parametrize("most", [None, 1, 4])
def test_a_few_at_a_time_are_the_same(most: int | None) -> None:
    student, _, batch = exact_feed()
    objective = parse_objective("plain").for_model(matches=True, writes=False)
    with torch.no_grad():
        seen = student.see(batch.pixels)
        vectors = BatchVectors(seen.vectors, student.read(batch.text))
        inputs = loss_batch(student, vectors, batch)
        values = []
        for size in (None, most):
            torch.manual_seed(1)
            paired = PairLosses(student, objective, None, batch, inputs, [slice(0, SIZE)])
            asked = list(paired.of(0, seen, size))
            values.append(torch.stack([ask() for _, ask in asked]).sum())
        if most:
            assert len(asked) == -(-3 * SIZE // most)
    torch.testing.assert_close(*values)


def test_what_a_frozen_tower_leaves_no_gradients_to() -> None:
    pytest.importorskip("peft")
    from contrapose.tune.parameters import add_lora

    student = small_student(fusion=True)
    chosen = settings(3, lora=2, freeze=("image",))
    add_lora(student, chosen)
    assert all(name.startswith("text.") for name in select_trainable(student, chosen))
    feed = Feed(small_rows(), student, chosen)
    objective = parse_objective("plain").for_model(matches=True, writes=True)
    losses = TrainingStep(student, objective, chosen, feed, None, "cpu").backward(feed.batch(0))
    assert losses.keys() == {"contrast", "itm", "lm"}
    assert all(name.startswith("text.") for name in gradients(student))


def test_in_bf16() -> None:
    student = small_student(fusion=True)
    chosen = settings(3, dtype="bf16")
    feed = Feed(small_rows(), student, chosen, needs={"negative"})
    objective = parse_objective("hn").for_model(matches=True, writes=True)
    losses = TrainingStep(student, objective, chosen, feed, None, "cpu").backward(feed.batch(0))
    assert all(loss.isfinite() for loss in losses.values())
    assert all(grad.isfinite().all() for grad in gradients(student).values())
