from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from contrapose.losses.gather import Processes
from contrapose.tune.feed import Feed
from contrapose.tune.objective import parse_objective
from contrapose.tune.settings import Settings
from contrapose.tune.trainer import train
from tests.tune.small import small_rows, small_student, weights

SETTINGS = Settings(steps=4, batch=6, rate=1e-2, save_every=2, log_every=1)


def test_vectors_are_those_of_the_model_before_training() -> None:
    student = small_student(fusion=True)
    feed = Feed(small_rows(), student, SETTINGS, needs={"coarse"})
    batch = feed.batch(3)
    with torch.no_grad():
        image, text = student.see(batch.pixels).vectors, student.read(batch.text)
        assert batch.coarse is not None
        torch.testing.assert_close(batch.coarse[0], image)
        torch.testing.assert_close(batch.coarse[1], text)
        for weight in student.network.parameters():
            weight.add_(0.1)
    again = feed.batch(3)
    assert again.coarse is not None
    assert torch.equal(again.coarse[0], batch.coarse[0])
    assert again.seed == batch.seed != feed.batch(2).seed
    assert Feed(small_rows(), student, SETTINGS).batch(3).coarse is None


def test_only_what_is_trained_on_is_encoded() -> None:
    """A process encodes its part of the batches of the run."""
    student = small_student(fusion=True)
    settings = replace(SETTINGS, steps=1)
    feed = Feed(small_rows(), student, settings, needs={"coarse"}, job=Processes(1, 2))
    assert feed.coarse is not None
    batch = feed.batch(0)
    assert feed.coarse.rows.tolist() == sorted(batch.rows.tolist())
    assert feed.coarse.texts.tolist() == np.unique(batch.captions.numpy()).tolist()
    assert student.network.training is False


def test_a_resumed_run_samples_the_same_pairs(tmp_path: Path) -> None:
    objective = parse_objective("eqsim:sampled=3:close=1")
    unbroken = small_student(fusion=True)
    train(unbroken, small_rows(), objective, SETTINGS, folder=tmp_path / "unbroken")
    for name in ("log.jsonl", "checkpoints/step-00000004.safetensors"):
        (tmp_path / "unbroken" / name).unlink()
    resumed = small_student(fusion=True)
    train(
        resumed, small_rows(), objective, SETTINGS, folder=tmp_path / "unbroken", resume=True
    )  # fmt: skip
    expected = weights(unbroken)
    assert all(torch.equal(it, expected[name]) for name, it in weights(resumed).items())
