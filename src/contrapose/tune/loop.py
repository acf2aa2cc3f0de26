"""The loop: AdamW, warm-up and cosine, checkpoints that it goes on from to the same next step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from contrapose.errors import InputError
from contrapose.tune import checkpoint
from contrapose.tune.data.rows import Rows
from contrapose.tune.feed import Batch, Feed
from contrapose.tune.journal import Journal
from contrapose.tune.losses.gather import processes
from contrapose.tune.objective import Objective
from contrapose.tune.settings import Settings, schedule
from contrapose.tune.step import Lesson
from contrapose.tune.students.student import Student
from contrapose.tune.taught import average, decided, optimiser_of, taught

Told = Callable[[int, int, Mapping[str, float]], None]
"""Told after some steps: how many are done, of how many, and the losses."""


class Check(Protocol):
    """Looks at the model now and then; see `guard.Guard`.

    Attributes:
        highest: of the measure by which the best model is known, so far.
    """

    highest: float

    def __call__(self, step: int) -> tuple[str, bool]:
        """Why to stop, empty to go on; and whether the model is the best so far."""


class Teacher(Protocol):
    """Adds a loss of its own; see `distill.Distiller`."""

    def loss(self, student: Student, batch: Batch, image: Tensor) -> Tensor:
        """The loss of a batch, of the student's vectors of its images."""


@dataclass(slots=True)
class Trained:
    """How a run ended.

    Attributes:
        step: how many steps were done.
        stopped: why it ended early; empty when it did not.
        losses: at the end.
        best: the checkpoint that was found best, where that was looked for.
    """

    step: int
    stopped: str = ""
    losses: dict[str, float] = field(default_factory=dict)
    best: Path | None = None


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
    objective = objective.for_model(matches=student.matches, writes=student.writes)
    feed = Feed(
        rows, student, settings,
        negatives=bool(objective.hn or objective.distill), positives=bool(objective.hp),
        device=device, job=job,
    )  # fmt: skip
    torch.manual_seed(settings.seed)
    run = _Run(student, objective, settings, feed, folder, teacher, device)
    if begin is not None:
        begin()
    done, best = run.resumed(check) if resume else (0, None)
    begun = time.perf_counter()
    journal = Journal(folder / "log.jsonl" if folder and job.rank == 0 else None, done)
    trained = Trained(done, best=best)
    fine = torch.ones((), dtype=torch.bool, device=device)
    for step, batch in enumerate(feed.batches(done, settings.steps), start=done):
        losses = run.step(step, batch)
        fine = fine & torch.stack([loss.isfinite() for loss in losses.values()]).all()
        trained.step = step + 1
        last = trained.step == settings.steps
        save = last or (settings.save_every > 0 and trained.step % settings.save_every == 0)
        speak = last or trained.step % settings.log_every == 0
        if (save or speak or device == "cpu") and not bool(fine):
            raise _no_number(trained.step, losses, folder)
        if speak:
            trained.losses = {name: float(value) for name, value in losses.items()}
            rate = run.rate * schedule(step, settings)
            seconds = round(time.perf_counter() - begun, 3)
            journal.say({"step": trained.step, "rate": rate, "seconds": seconds, **trained.losses})
            if told is not None and job.rank == 0:
                told(trained.step, settings.steps, trained.losses)
        if save:
            trained.stopped, trained.best = run.kept(trained.step, check, trained.best, journal)
            if trained.stopped:
                break
    run.to_mean()
    student.network.eval()
    return trained


class _Run:
    """What a run keeps from step to step."""

    def __init__(
        self,
        student: Student,
        objective: Objective,
        settings: Settings,
        feed: Feed,
        folder: Path | None,
        teacher: Teacher | None,
        device: str,
    ):
        self.student, self.settings, self.folder = student, settings, folder
        self.rate = student.rate if settings.rate is None else settings.rate
        self.taught = taught(student, settings)
        self.optimiser = optimiser_of(self.taught, settings, self.rate, device)
        self.mean = (
            {name: weight.detach().clone() for name, weight in self.taught.items()}
            if settings.ema
            else None
        )
        self.lesson = Lesson(student, objective, settings, feed, teacher, device)
        self.about: dict[str, Any] = {
            "architecture": checkpoint.architecture(student.network),
            "settings": settings.as_dict(),
            "objective": objective.as_dict(),
            "texts": len(feed.rows.texts),
            "images": len(feed.rows),
        }

    def step(self, number: int, batch: Batch) -> dict[str, Tensor]:
        """One step; gives the losses."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate * schedule(number, self.settings)
        self.optimiser.zero_grad(set_to_none=True)
        losses = self.lesson.backward(batch)
        weights = list(self.taught.values())
        average(weights)
        nn.utils.clip_grad_norm_(weights, self.settings.clip)
        self.optimiser.step()
        if self.mean is not None and self.settings.ema is not None:
            with torch.no_grad():
                # Early on a long mean would mostly be the weights that it began with.
                decay = min(self.settings.ema, (1 + number) / (10 + number))
                for name, weight in self.taught.items():
                    self.mean[name].lerp_(weight, 1 - decay)
        return losses

    def kept(
        self, step: int, check: Check | None, best: Path | None, journal: Journal
    ) -> tuple[str, Path | None]:
        """Looks at the model where someone wants to, and writes a checkpoint."""
        why, better = "", False
        if check is not None:
            with _as_kept(self):
                why, better = check(step)
            why = why if decided(bool(why)) else ""
        if self.folder is None:
            return why, None
        place = self.folder / "checkpoints"
        if processes().rank == 0 and not why:
            about = {**self.about, "highest": None if check is None else check.highest}
            state = checkpoint.capture(step, self.taught, self.optimiser, self.mean, about)
            if better:
                checkpoint.write_state(place / checkpoint.BEST, state)
            checkpoint.write_state(place / checkpoint.name_of(step), state)
            checkpoint.prune(place)
        if processes().count > 1:
            dist.barrier()
        journal.say({"checkpoint": step, "best": better, "stopped": why})
        return why, place / checkpoint.BEST if better else best

    def resumed(self, check: Check | None) -> tuple[int, Path | None]:
        """Goes back to the newest checkpoint; gives its step, and the best one."""
        if self.folder is None:
            raise InputError("there is no folder to resume from.")
        file = checkpoint.latest(self.folder / "checkpoints")
        if file is None:
            return 0, None
        state = checkpoint.read_state(file, self.student.network)
        for name, mine in self.about.items():
            if state.about.get(name) != mine:
                raise InputError(
                    f"is of a run with other {name} ({_difference(state.about[name], mine)}): "
                    "--resume needs the same command.",
                    file=file,
                )
        checkpoint.restore(state, self.taught, self.optimiser, self.mean)
        best = file.with_name(checkpoint.BEST)
        if check is None or not best.is_file() or state.about["highest"] is None:
            return state.step, None
        check.highest = state.about["highest"]
        return state.step, best

    def to_mean(self) -> None:
        """Weights become their running means, where those are kept."""
        if self.mean is not None:
            with torch.no_grad():
                for name, weight in self.taught.items():
                    weight.copy_(self.mean[name])


class _as_kept:  # noqa: N801 - reads as a phrase where it is used
    """Within, the network is as it would be kept: with running means, and not in training."""

    def __init__(self, run: _Run):
        self.run = run

    def __enter__(self) -> None:
        self.last = {name: weight.detach().clone() for name, weight in self.run.taught.items()}
        self.modes = [(module, module.training) for module in self.run.student.network.modules()]
        self.run.to_mean()
        self.run.student.network.eval()

    def __exit__(self, *error: object) -> None:
        with torch.no_grad():
            for name, weight in self.run.taught.items():
                weight.copy_(self.last[name])
        for module, mode in self.modes:
            module.training = mode


def _no_number(step: int, losses: Mapping[str, Tensor], folder: Path | None) -> InputError:
    bad = [name for name, value in losses.items() if not math.isfinite(float(value))]
    last = checkpoint.latest(folder / "checkpoints") if folder else None
    kept = f"; the last good checkpoint is {last}" if last else ""
    said = f"of {', '.join(bad)} is" if bad else "was"
    return InputError(
        f"the loss {said} no number at step {step}{kept}: try a lower --lr, or --dtype fp32."
    )


def _difference(one: Any, other: Any) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            if one.get(key) != other.get(key):
                return f"{key} was {one.get(key)}, now {other.get(key)}"
    return f"{one}, now {other}"
