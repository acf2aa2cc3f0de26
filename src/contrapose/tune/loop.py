"""The loop: step after step, with what is said, looked at and kept in between."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.tune import checkpoint
from contrapose.tune.data.rows import Rows
from contrapose.tune.feed import Feed
from contrapose.tune.journal import Journal
from contrapose.tune.learner import Check, Learner
from contrapose.tune.losses.gather import processes
from contrapose.tune.objective import Objective
from contrapose.tune.paired import Teacher
from contrapose.tune.settings import Settings, schedule
from contrapose.tune.students.student import Student

Told = Callable[[int, int, Mapping[str, float]], None]
"""Told after some steps: how many are done, of how many, and the losses."""


@dataclass(slots=True)
class Trained:
    """How a run ended.

    Attributes:
        step: how many steps were done.
        stopped: why it ended early; empty when it did not.
        losses: at the end.
        best: the checkpoint that was found best, where that was looked for.
        notes: what of the data was learnt from, where that is not all of it.
    """

    step: int
    stopped: str = ""
    losses: dict[str, float] = field(default_factory=dict)
    best: Path | None = None
    notes: tuple[str, ...] = ()


def train(
    student: Student,
    rows: Rows,
    objective: Objective,
    settings: Settings,
    *,
    folder: Path | None = None,
    resume: bool = False,
    check: Check | None = None,
    teacher: Teacher | None = None,
    device: str = "cpu",
    told: Told | None = None,
    begin: Callable[[], None] | None = None,
) -> Trained:
    """Teach a student; it ends with the running means of its weights where those are kept.

    Args:
        student: on its device; taught in place.
        rows: what it learns from.
        objective: what is minimised.
        settings: how.
        folder: where checkpoints and the log go; without one, nothing is written.
        resume: go on from the newest checkpoint there.
        check: asked at every checkpoint.
        teacher: where the objective has one.
        device: where the student is.
        told: told the losses now and then.
        begin: called once all is known to fit together, before anything is written.

    Raises:
        InputError: the data do not suit the objective, a loss is no number, a checkpoint cannot be
            written or belongs to another run.
    """
    job = processes()
    objective = fitted(objective, student)
    feed = Feed(
        rows, student, settings,
        negatives=bool(objective.hn or objective.distill or objective.dividend),
        positives=bool(objective.hp), games=bool(objective.dividend), device=device, job=job,
    )  # fmt: skip
    learner = Learner(student, objective, settings, feed, folder, teacher, device)
    if begin is not None:
        begin()
    done, best = learner.resumed(check) if resume else (0, None)
    begun = time.perf_counter()
    journal = Journal(folder / "log.jsonl" if folder and job.rank == 0 else None, done)
    notes = () if feed.players is None else (feed.players.note,)
    trained = Trained(done, best=best, notes=notes)
    fine = torch.ones((), dtype=torch.bool, device=device)
    for step, batch in enumerate(feed.batches(done, settings.steps), start=done):
        losses = learner.step(step, batch)
        fine = fine & torch.stack([loss.isfinite() for loss in losses.values()]).all()
        trained.step = step + 1
        last = trained.step == settings.steps
        save = last or (settings.save_every > 0 and trained.step % settings.save_every == 0)
        speak = last or trained.step % settings.log_every == 0
        if (save or speak or device == "cpu") and not bool(fine):
            raise _no_number(trained.step, losses, folder)
        if speak:
            trained.losses = {name: float(value) for name, value in losses.items()}
            rate = learner.rate * schedule(step, settings)
            seconds = round(time.perf_counter() - begun, 3)
            journal.say({"step": trained.step, "rate": rate, "seconds": seconds, **trained.losses})
            if told is not None and job.rank == 0:
                told(trained.step, settings.steps, trained.losses)
        if save:
            trained.stopped, trained.best = learner.kept(trained.step, check, trained.best, journal)
            if trained.stopped:
                break
    learner.to_mean()
    student.network.eval()
    return trained


def fitted(objective: Objective, student: Student) -> Objective:
    """The objective with what the model decides filled in.

    Raises:
        InputError: the model lacks what a loss is for.
    """
    return objective.for_model(matches=student.matches, writes=student.writes, hides=student.hides)


def _no_number(step: int, losses: Mapping[str, Tensor], folder: Path | None) -> InputError:
    bad = [name for name, value in losses.items() if not math.isfinite(float(value))]
    last = checkpoint.latest(folder / "checkpoints") if folder else None
    kept = f"; the last good checkpoint is {last}" if last else ""
    said = f"of {', '.join(bad)} is" if bad else "was"
    return InputError(
        f"the loss {said} no number at step {step}{kept}: try a lower --lr, or --dtype fp32."
    )
