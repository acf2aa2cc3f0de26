from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from contrapose import metrics
from contrapose.errors import InputError
from contrapose.tune.distill import NOISE, SHARPNESS, Distiller
from contrapose.tune.feed import Feed
from contrapose.tune.loop import train
from contrapose.tune.objective import parse_objective
from contrapose.tune.settings import Settings
from tests.tune.small import small_rows, small_student

SETTINGS = Settings(steps=2, batch=4, rate=3e-3, save_every=0, log_every=1)


def distiller(alpha: float = 1.0) -> tuple[Distiller, Feed]:
    feed = Feed(small_rows(), small_student(), SETTINGS, negatives=True)
    return Distiller(small_student(fusion=True, seed=4).model, feed, alpha=alpha, others=2), feed


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_aims_are_debiased_likelihoods(alpha: float) -> None:
    it, feed = distiller(alpha)
    batch = feed.batch(0)
    choices = it.choices(batch)
    aims = it.aims(batch, choices)
    teacher: Any = it.teacher
    texts = feed.rows.texts

    def mean(image: Any, text: str) -> float:
        found = teacher.token_logprobs([image], [text])
        return float(found.values.mean())

    noise = teacher.noise_images(NOISE, 0)
    images = feed.rows.images.open(batch.rows.tolist())
    for i in range(4):
        there = choices[i] >= 0
        scores = []
        for number in choices[i][there].tolist():
            prior = metrics.log_prior([mean(each, texts[number]) for each in noise])
            scores.append(mean(images[i], texts[number]) - alpha * float(prior))
        expected = torch.tensor(scores, dtype=torch.float64).mul(SHARPNESS).softmax(0).numpy()
        np.testing.assert_allclose(aims[i][there], expected, rtol=1e-3, atol=1e-6)
        assert (aims[i][~there] == 0).all()


def test_choices_are_the_caption_its_negative_and_others() -> None:
    it, feed = distiller()
    batch = feed.batch(1)
    choices = it.choices(batch)
    own = batch.captions.numpy()
    assert choices.shape == (4, 4)
    assert (choices[:, 0] == own).all()
    assert (choices[:, 1] == batch.negatives).all()
    for row in range(4):
        assert own[row] not in choices[row, 2:]


def test_the_student_follows() -> None:
    it, _ = distiller()
    student = small_student()
    objective = replace(parse_objective("distill=5"), contrast=0.01)
    seen: list[float] = []
    settings = replace(SETTINGS, steps=80, batch=12)
    feed = Feed(small_rows(), student, settings, negatives=True)
    teacher = Distiller(it.teacher, feed, others=2)
    train(
        student, small_rows(), objective, settings, teacher=teacher,
        told=lambda step, steps, losses: seen.append(losses["distill"]),
    )  # fmt: skip
    assert np.mean(seen[-10:]) < 0.7 * np.mean(seen[:5])


def test_what_is_no_teacher() -> None:
    feed = Feed(small_rows(), small_student(), SETTINGS, negatives=True)
    with pytest.raises(InputError, match="needs a captioner"):
        Distiller(small_student().model, feed)
    with pytest.raises(InputError, match="between 0 and 1"):
        Distiller(small_student(fusion=True).model, feed, alpha=2.0)
    with pytest.raises(InputError, match="go together"):
        train(small_student(), small_rows(), parse_objective("distill"), SETTINGS)
    with pytest.raises(InputError, match="--accumulate"):
        train(
            small_student(fusion=True), small_rows(), parse_objective("plain"),
            replace(SETTINGS, pieces=2),
        )  # fmt: skip
