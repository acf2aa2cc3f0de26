"""The trainer: optimizer, EMA, checkpoints, log and the training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from contrapose.errors import InputError, option
from contrapose.losses.gather import processes
from contrapose.tune.data.rows import TrainingSet
from contrapose.tune.feed import Feed, TrainingBatch
from contrapose.tune.objective import Objective
from contrapose.tune.pair_losses import Teacher
from contrapose.tune.parameters import (
    BEST_CHECKPOINT,
    architecture_hash,
    average_gradients,
    broadcast_object,
    capture_state,
    checkpoint_name,
    damaged_checkpoint,
    gather_objects,
    latest_checkpoint,
    make_optimizer,
    pack_teacher_memories,
    prune_checkpoints,
    read_state,
    restore_state,
    select_trainable,
    teacher_memory,
    write_state,
)
from contrapose.tune.settings import Settings
from contrapose.tune.step import CudaGraphStep, TrainingStep, can_record
from contrapose.tune.students import Student, evaluation_mode
from contrapose.tune.training_log import TrainingLog


class CheckpointCallback(Protocol):
    """Callback that evaluates the model at checkpoints; see `guard.Guard`.

    Attributes:
        highest: of the measure by which the best model is known, so far.
    """

    highest: float

    def __call__(self, step: int) -> tuple[str, bool]:
        """Reason to stop, empty to go on; and whether the model is the best so far."""


class Trainer:
    """A student with its optimizer, EMA weights and checkpoints."""

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
        self.trainable = select_trainable(student, settings)
        self.optimizer = make_optimizer(self.trainable, settings, self.rate, device)
        self.mean = (
            {name: weight.detach().clone() for name, weight in self.trainable.items()}
            if settings.ema
            else None
        )
        self.training_step = TrainingStep(student, objective, settings, feed, teacher, device)
        self.graph_step: CudaGraphStep | None = None
        if can_record(self.training_step):
            self.graph_step = CudaGraphStep(self.training_step, self.trainable.values())
        self.about: dict[str, Any] = {
            "architecture": architecture_hash(student.network),
            "model": student.model.fingerprint,
            "settings": settings.as_dict(),
            "objective": objective.as_dict(),
            "teacher": None if teacher is None else teacher.about,
            "texts": len(feed.rows.texts),
            "images": len(feed.rows),
        }

    def step(self, number: int, batch: TrainingBatch) -> dict[str, Tensor]:
        """Run one optimizer step; returns the losses.

        What it draws (dropout, wrong pairs) is a function of seed, step and process alone, as the
        batch is.
        """
        mine = np.random.SeedSequence((self.settings.seed, number, processes().rank))
        torch.manual_seed(int(mine.generate_state(1, np.uint64)[0]))
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * self.settings.learning_rate_factor(number)
        self.optimizer.zero_grad(set_to_none=True)
        losses = (self.graph_step or self.training_step).backward(batch)
        weights = list(self.trainable.values())
        average_gradients(weights)
        nn.utils.clip_grad_norm_(weights, self.settings.clip)
        self.optimizer.step()
        if self.mean is not None and self.settings.ema is not None:
            with torch.no_grad():
                # Early on a long mean would mostly be the weights that it began with.
                decay = min(self.settings.ema, (1 + number) / (10 + number))
                for name, weight in self.trainable.items():
                    self.mean[name].lerp_(weight, 1 - decay)
        return losses

    def save_checkpoint(
        self, step: int, check: CheckpointCallback | None, best: Path | None, log: TrainingLog
    ) -> tuple[str, Path | None]:
        """Run the checkpoint callback and write a checkpoint."""
        why, better = "", False
        if check is not None:
            with _ema_weights(self):
                why, better = check(step)
            why, better = broadcast_object((why, better))
        if self.folder is None:
            return why, None
        folder = self.folder / "checkpoints"
        teacher = self.training_step.teacher
        memories = [] if teacher is None else gather_objects(teacher.memory)
        if processes().rank == 0 and not why:
            about = {**self.about, "highest": None if check is None else check.highest}
            state = capture_state(step, self.trainable, self.optimizer, self.mean, about)
            state.tensors |= pack_teacher_memories(memories)
            if better:
                write_state(folder / BEST_CHECKPOINT, state)
            write_state(folder / checkpoint_name(step), state)
            prune_checkpoints(folder)
        if processes().count > 1:
            dist.barrier()
        log.write({"checkpoint": step, "best": better, "stopped": why})
        return why, folder / BEST_CHECKPOINT if better else best

    def resume_from_checkpoint(self, check: CheckpointCallback | None) -> tuple[int, Path | None]:
        """Restore the newest checkpoint; returns its step, and the best checkpoint."""
        if self.folder is None:
            raise InputError("there is no folder to resume from.")
        file = latest_checkpoint(self.folder / "checkpoints")
        if file is None:
            return 0, None
        state = read_state(file, self.student.network)
        for name, mine in self.about.items():
            if state.about.get(name) != mine:
                raise InputError(
                    f"is of a run with other {name} "
                    f"({_describe_difference(state.about.get(name), mine)}): "
                    f"{option('resume')} needs the same command.",
                    file=file,
                )
        try:
            restore_state(state, self.trainable, self.optimizer, self.mean)
            if self.training_step.teacher is not None:
                self.training_step.teacher.memory = teacher_memory(state, processes().rank)
        except (KeyError, TypeError, ValueError) as error:
            raise damaged_checkpoint(file, error) from None
        best = file.with_name(BEST_CHECKPOINT)
        highest = state.about.get("highest")
        if check is None or not best.is_file() or not isinstance(highest, float | int):
            return state.step, None
        check.highest = highest
        return state.step, best

    def load_ema(self) -> None:
        """Replace the weights by their EMA, if there is one."""
        if self.mean is not None:
            with torch.no_grad():
                for name, weight in self.trainable.items():
                    weight.copy_(self.mean[name])


@contextmanager
def _ema_weights(trainer: Trainer) -> Iterator[None]:
    """Put the EMA weights in for a while, in evaluation mode."""
    last = {name: weight.detach().clone() for name, weight in trainer.trainable.items()}
    with evaluation_mode(trainer.student.network):
        trainer.load_ema()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, weight in trainer.trainable.items():
                    weight.copy_(last[name])


def _describe_difference(one: Any, other: Any) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            if one.get(key) != other.get(key):
                return f"{key} was {one.get(key)}, now {other.get(key)}"
    return f"{one}, now {other}"


LossCallback = Callable[[int, int, Mapping[str, float]], None]
"""Called after some steps with how many are done, of how many, and the losses."""


StepCallback = Callable[[int, Mapping[str, float], float], None]
"""Called for every step, some steps later, with its number, its losses and the learning rate."""


class StepBuffer:
    """Losses of the last steps, read from the device all at once, so that no step waits for it."""

    def __init__(self, write: StepCallback | None):
        self.write = write
        self.steps: list[tuple[int, dict[str, Tensor], float]] = []

    def add(self, step: int, losses: Mapping[str, Tensor], rate: float) -> None:
        """Copy the losses of a step."""
        if self.write is not None:
            copies = {name: loss.detach().clone() for name, loss in losses.items()}
            self.steps.append((step, copies, rate))

    def flush(self) -> None:
        """Hand over the steps that were added since the last time."""
        if self.write is not None:
            for step, losses, rate in self.steps:
                self.write(step, {name: float(loss) for name, loss in losses.items()}, rate)
            self.steps.clear()


@dataclass(slots=True)
class TrainingResult:
    """Result of a training run.

    Attributes:
        step: how many steps were done.
        stopped: why it ended early; empty when it did not.
        losses: of the last step.
        best: the best checkpoint, where one was selected.
        notes: which part of the data was used, where it is not all.
    """

    step: int
    stopped: str = ""
    losses: dict[str, float] = field(default_factory=dict)
    best: Path | None = None
    notes: tuple[str, ...] = ()


def train(
    student: Student,
    rows: TrainingSet,
    objective: Objective,
    settings: Settings,
    *,
    folder: Path | None = None,
    resume: bool = False,
    check: CheckpointCallback | None = None,
    teacher: Teacher | None = None,
    device: str = "cpu",
    on_step: LossCallback | None = None,
    scalars: StepCallback | None = None,
    begin: Callable[[], None] | None = None,
) -> TrainingResult:
    """Train a student in place; it ends with its EMA weights if EMA is on.

    Args:
        student: on its device; trained in place.
        rows: the training set.
        objective: the losses and their weights.
        settings: hyperparameters.
        folder: where checkpoints and the log go; without one, nothing is written.
        resume: go on from the newest checkpoint there.
        check: called at every checkpoint.
        teacher: where the objective has one.
        device: where the student is.
        on_step: called with the losses every `log_every` steps.
        scalars: called with losses and learning rate of every step, also every `log_every` steps.
        begin: called once all is known to fit together, before anything is written.

    Raises:
        InputError: the data do not suit the objective, a loss is no number, a checkpoint cannot be
            written or belongs to another run.
    """
    job = processes()
    objective = fit_objective(objective, student)
    feed = Feed(rows, student, settings, needs=objective.needs, device=device, job=job)
    trainer = Trainer(student, objective, settings, feed, folder, teacher, device)
    if begin is not None:
        begin()
    done, best = trainer.resume_from_checkpoint(check) if resume else (0, None)
    begun = time.perf_counter()
    log = TrainingLog(folder / "log.jsonl" if folder and job.rank == 0 else None, done)
    notes = () if feed.players is None else (feed.players.note,)
    trained = TrainingResult(done, best=best, notes=notes)
    fine = torch.ones((), dtype=torch.bool, device=device)
    buffer = StepBuffer(scalars if job.rank == 0 else None)
    for step, batch in enumerate(feed.batches(done, settings.steps), start=done):
        losses = trainer.step(step, batch)
        fine = fine & torch.stack([loss.isfinite() for loss in losses.values()]).all()
        trained.step = step + 1
        rate = trainer.rate * settings.learning_rate_factor(step)
        buffer.add(trained.step, losses, rate)
        last = trained.step == settings.steps
        save = last or (settings.save_every > 0 and trained.step % settings.save_every == 0)
        speak = last or trained.step % settings.log_every == 0
        if (save or speak or device == "cpu") and not bool(fine):
            raise _not_finite_error(trained.step, losses, folder)
        if speak:
            trained.losses = {name: float(value) for name, value in losses.items()}
            buffer.flush()
            seconds = round(time.perf_counter() - begun, 3)
            log.write({"step": trained.step, "rate": rate, "seconds": seconds, **trained.losses})
            if on_step is not None and job.rank == 0:
                on_step(trained.step, settings.steps, trained.losses)
        if save:
            trained.stopped, trained.best = trainer.save_checkpoint(
                trained.step, check, trained.best, log
            )
            if trained.stopped:
                break
    buffer.flush()
    trainer.load_ema()
    student.network.eval()
    return trained


def fit_objective(objective: Objective, student: Student) -> Objective:
    """The objective with the model-dependent weights filled in.

    Raises:
        InputError: the model lacks what a loss is for.
    """
    return objective.for_model(matches=student.matches, writes=student.writes, hides=student.hides)


def _not_finite_error(step: int, losses: Mapping[str, Tensor], folder: Path | None) -> InputError:
    bad = [name for name, value in losses.items() if not math.isfinite(float(value))]
    last = latest_checkpoint(folder / "checkpoints") if folder else None
    fallback = f"; the last good checkpoint is {last}" if last else ""
    which = f"of {', '.join(bad)} is" if bad else "was"
    return InputError(
        f"the loss {which} no number at step {step}{fallback}: try a lower {option('lr')}, or "
        f"{option('dtype', 'fp32')}."
    )
