"""What a run keeps from step to step: weights, optimiser, running means; and its checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from contrapose.errors import InputError
from contrapose.tune import checkpoint
from contrapose.tune.feed import Batch, Feed
from contrapose.tune.journal import Journal
from contrapose.tune.losses.gather import processes
from contrapose.tune.objective import Objective
from contrapose.tune.paired import Teacher
from contrapose.tune.recorded import Recorded, can_record
from contrapose.tune.settings import Settings, schedule
from contrapose.tune.step import Lesson
from contrapose.tune.students.student import Student
from contrapose.tune.taught import average, decided, everyones, optimiser_of, taught


class Check(Protocol):
    """Looks at the model now and then; see `guard.Guard`.

    Attributes:
        highest: of the measure by which the best model is known, so far.
    """

    highest: float

    def __call__(self, step: int) -> tuple[str, bool]:
        """Why to stop, empty to go on; and whether the model is the best so far."""


class Learner:
    """A student with what a run keeps from step to step."""

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
        self.recorded: Recorded | None = None
        if can_record(self.lesson):
            self.recorded = Recorded(self.lesson, self.taught.values())
        self.about: dict[str, Any] = {
            "architecture": checkpoint.architecture(student.network),
            "model": student.model.fingerprint,
            "settings": settings.as_dict(),
            "objective": objective.as_dict(),
            "teacher": None if teacher is None else teacher.about,
            "texts": len(feed.rows.texts),
            "images": len(feed.rows),
        }

    def step(self, number: int, batch: Batch) -> dict[str, Tensor]:
        """One step; gives the losses.

        What it draws (dropout, wrong pairs) is a function of seed, step and process alone, as the
        batch is.
        """
        mine = np.random.SeedSequence((self.settings.seed, number, processes().rank))
        torch.manual_seed(int(mine.generate_state(1, np.uint64)[0]))
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate * schedule(number, self.settings)
        self.optimiser.zero_grad(set_to_none=True)
        losses = (self.recorded or self.lesson).backward(batch)
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
            why, better = decided((why, better))
        if self.folder is None:
            return why, None
        place = self.folder / "checkpoints"
        teacher = self.lesson.teacher
        memories = [] if teacher is None else everyones(teacher.memory)
        if processes().rank == 0 and not why:
            about = {**self.about, "highest": None if check is None else check.highest}
            state = checkpoint.capture(step, self.taught, self.optimiser, self.mean, about)
            state.tensors |= checkpoint.remembered(memories)
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
                    f"is of a run with other {name} ({_difference(state.about.get(name), mine)}): "
                    "--resume needs the same command.",
                    file=file,
                )
        checkpoint.restore(state, self.taught, self.optimiser, self.mean)
        if self.lesson.teacher is not None:
            self.lesson.teacher.memory = checkpoint.memory_of(state, processes().rank)
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

    def __init__(self, learner: Learner):
        self.learner = learner

    def __enter__(self) -> None:
        self.last = {name: weight.detach().clone() for name, weight in self.learner.taught.items()}
        self.modes = [
            (module, module.training) for module in self.learner.student.network.modules()
        ]
        self.learner.to_mean()
        self.learner.student.network.eval()

    def __exit__(self, *error: object) -> None:
        with torch.no_grad():
            for name, weight in self.learner.taught.items():
                weight.copy_(self.last[name])
        for module, mode in self.modes:
            module.training = mode


def _difference(one: Any, other: Any) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            if one.get(key) != other.get(key):
                return f"{key} was {one.get(key)}, now {other.get(key)}"
    return f"{one}, now {other}"
