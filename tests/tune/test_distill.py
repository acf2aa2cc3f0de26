from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contrapose import metrics
from contrapose.errors import InputError
from contrapose.metrics import FloatArray
from contrapose.tune.distill import NOISE_IMAGES, Distiller
from contrapose.tune.feed import Feed
from contrapose.tune.objective import parse_objective
from contrapose.tune.settings import SHARPNESS, Settings
from contrapose.tune.trainer import train
from tests.tune.small import small_rows, small_student, weights

SETTINGS = Settings(steps=2, batch=4, rate=3e-3, save_every=0, log_every=1)


def distiller(alpha: float = 1.0, sharpness: float = SHARPNESS) -> tuple[Distiller, Feed]:
    feed = Feed(small_rows(), small_student(), SETTINGS, needs={"negative"})
    teacher = small_student(fusion=True, seed=4).model
    return Distiller(teacher, feed, alpha=alpha, sharpness=sharpness, others=2), feed


@pytest.mark.parametrize(
    ("alpha", "sharpness"), [(0.0, SHARPNESS), (0.6, SHARPNESS), (1.0, SHARPNESS), (1.0, 0.5)]
)
def test_aims_are_debiased_likelihoods(alpha: float, sharpness: float) -> None:
    it, feed = distiller(alpha, sharpness)
    batch = feed.batch(0)
    choices = it.choices(batch)
    aims = it.aims(batch, choices)
    teacher: Any = it.teacher
    texts = feed.rows.texts

    def mean(image: Any, text: str) -> float:
        found = teacher.token_logprobs([image], [text])
        return float(found.values.mean())

    noise = teacher.noise_images(NOISE_IMAGES, 0)
    images = feed.rows.images.open(batch.rows.tolist())
    for i in range(4):
        there = choices[i] >= 0
        scores = []
        for number in choices[i][there].tolist():
            prior = metrics.log_prior([mean(each, texts[number]) for each in noise])
            scores.append(mean(images[i], texts[number]) - alpha * float(prior))
        expected = torch.tensor(scores, dtype=torch.float64).mul(sharpness).softmax(0).numpy()
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


def aims(alpha: float = 1.0, sharpness: float = SHARPNESS) -> FloatArray:
    it, feed = distiller(alpha, sharpness)
    batch = feed.batch(0)
    return it.aims(batch, it.choices(batch))


def test_taking_the_prior_out_gives_other_aims() -> None:
    raw, half, debiased = (aims(alpha) for alpha in (0.0, 0.5, 1.0))
    assert np.abs(raw - debiased).max() > 0.05
    # log q is linear in α up to a constant a row: α = ½ lies at the geometric mean.
    there = (raw > 0) & (raw > 1e-9) & (debiased > 1e-9)
    mean = np.sqrt(raw * debiased)
    expected = mean / mean.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(half[there], expected[there], rtol=1e-6)


def test_a_sharper_teacher_is_surer() -> None:
    soft, default, sharp = (aims(sharpness=each) for each in (1.0, SHARPNESS, 1e6))
    assert (soft.max(axis=1) < default.max(axis=1)).all()
    np.testing.assert_allclose(sharp.max(axis=1), 1.0, atol=1e-3)
    assert (soft.argmax(axis=1) == sharp.argmax(axis=1)).all()
    # q at sharpness s is the s-th power of q at 1, made to sum to one.
    power = np.where(soft > 0, soft, 0.0) ** SHARPNESS
    np.testing.assert_allclose(default, power / power.sum(axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_student_comes_to_choose_as_the_teacher(alpha: float) -> None:
    """Towards the teacher that it has, and not only towards any."""
    settings = replace(SETTINGS, steps=60, batch=12)
    student, rows = small_student(), small_rows()
    feed = Feed(rows, student, settings, needs={"negative"})
    model = small_student(fusion=True, seed=4).model
    mine, other = (Distiller(model, feed, alpha=each, others=2) for each in (alpha, 1 - alpha))
    objective = replace(parse_objective("distill=5"), contrast=0.01)
    batch = feed.batch(0)

    def far(teacher: Distiller) -> float:
        with torch.no_grad():
            return float(teacher.loss(student, batch, student.see(batch.pixels).vectors))

    before = far(mine)
    train(student, rows, objective, settings, teacher=mine)
    assert far(mine) < 0.6 * before
    assert far(mine) < far(other)


def test_the_loss_of_some_rows_is_their_mean() -> None:
    it, feed = distiller()
    student: Any = feed.student
    batch = feed.batch(0)
    with torch.no_grad():
        image = student.see(batch.pixels).vectors
        whole = it.loss(student, batch, image)
        parts = [it.loss(student, batch, image[rows], rows) for rows in (slice(0, 3), slice(3, 4))]
    torch.testing.assert_close((3 * parts[0] + parts[1]) / 4, whole, rtol=1e-4, atol=1e-5)


def test_resumed_with_the_same_teacher_alone(tmp_path: Path) -> None:
    objective, settings = parse_objective("distill"), replace(SETTINGS, steps=4, save_every=2)

    def run(folder: Path, alpha: float = 1.0, **more: Any) -> dict[str, torch.Tensor]:
        student = small_student()
        feed = Feed(small_rows(), student, settings, needs={"negative"})
        teacher = Distiller(small_student(fusion=True, seed=4).model, feed, alpha=alpha)
        train(student, small_rows(), objective, settings, folder=folder, teacher=teacher, **more)
        return weights(student)

    def kill(done: int, steps: int, losses: object) -> None:
        if done == 3:
            raise KeyboardInterrupt

    whole = run(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "part", on_step=kill)
    with pytest.raises(InputError, match=r"other teacher \(alpha was 1\.0, now 0\.5\)"):
        run(tmp_path / "part", 0.5, resume=True)
    part = run(tmp_path / "part", resume=True)
    assert all(torch.equal(part[name], whole[name]) for name in whole)


def test_what_is_no_teacher() -> None:
    feed = Feed(small_rows(), small_student(), SETTINGS, needs={"negative"})
    with pytest.raises(InputError, match="needs a captioner"):
        Distiller(small_student().model, feed)
    with pytest.raises(InputError, match="between 0 and 1"):
        Distiller(small_student(fusion=True).model, feed, alpha=2.0)
    for sharpness in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(InputError, match="sharpness must be above zero"):
            Distiller(small_student(fusion=True).model, feed, sharpness=sharpness)
    with pytest.raises(InputError, match="go together"):
        train(small_student(), small_rows(), parse_objective("distill"), SETTINGS)
