"""A small training, by one process or by several with a part of each batch."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from contrapose.losses import Match, processes
from contrapose.tune.distill import Distiller
from contrapose.tune.feed import Feed
from contrapose.tune.objective import parse_objective
from contrapose.tune.parameters import average_gradients, select_trainable
from contrapose.tune.settings import Settings
from contrapose.tune.step import TrainingStep
from contrapose.tune.trainer import train
from tests.tune.small import small_rows, small_student, weights

SETTINGS = Settings(steps=3, batch=6, rate=1e-2, save_every=2, log_every=1)
LONG = replace(SETTINGS, steps=6, ema=0.9, pieces=2)


RUNS = {
    "hp+hn": SETTINGS,
    "dividend=1+hn": SETTINGS,
    "eqsim+hn": Settings(steps=2, batch=6, rate=1e-2, save_every=0, pieces=3),
}
PIECES = (1, 2, 5)


def run(objective: str, folder: Path | None = None) -> dict[str, torch.Tensor]:
    student = small_student()
    train(student, small_rows(), parse_objective(objective), RUNS[objective], folder=folder)
    return weights(student)


def judged(pieces: int) -> dict[str, dict[str, torch.Tensor]]:
    """Losses and gradients of a step of a student that judges and writes too.

    Wrong pairs are the hardest, since draws of several processes are not those of one.
    """
    student = small_student(fusion=True)
    settings = Settings(steps=1, batch=6, pieces=pieces)
    feed = Feed(
        small_rows(), student, settings, needs={"negative", "positive", "coarse"}, job=processes()
    )  # fmt: skip
    objective = parse_objective("hp+hn+eqsim-match:sampled=4:close=2:margin=0.001").for_model(
        matches=True, writes=True
    )
    changing = select_trainable(student, settings)
    terms = [
        replace(term, loss=Match(draw="hardest")) if term.name == "itm" else term
        for term in objective.terms
    ]
    objective = replace(objective, terms=tuple(terms))
    losses = TrainingStep(student, objective, settings, feed, None, "cpu").backward(feed.batch(0))
    average_gradients(list(changing.values()))
    grads = {name: weight.grad for name, weight in changing.items() if weight.grad is not None}
    return {"losses": losses, "gradients": grads}


def join(rank: int, count: int, meet: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meet.as_uri(), rank=rank, world_size=count)


def main(rank: int, count: int, folder: str) -> None:
    join(rank, count, Path(folder, "meet"))
    for number, name in enumerate(RUNS):
        torch.save(run(name, Path(folder, f"run{number}")), Path(folder, f"{number}-{rank}.pt"))
    for pieces in PIECES:
        torch.save(judged(pieces), Path(folder, f"judged-{pieces}-{rank}.pt"))
    long(rank, folder, "whole")
    dist.destroy_process_group()


def long(rank: int, folder: str, name: str, *, kill: bool = False, resume: bool = False) -> None:
    """A longer run with all that is kept, of which the first process may be killed."""

    def on_step(done: int, steps: int, losses: object) -> None:
        if kill and done == 5:
            os.kill(os.getpid(), signal.SIGKILL)

    student, rows = small_student(fusion=True), small_rows()
    feed = Feed(rows, student, LONG, needs={"negative"})
    teacher = Distiller(small_student(fusion=True, seed=4).model, feed, others=2)
    train(
        student, rows, parse_objective("hp+hn+distill"), LONG,
        folder=Path(folder, name), resume=resume, on_step=on_step, teacher=teacher,
    )  # fmt: skip
    torch.save(weights(student), Path(folder, f"{name}-{rank}.pt"))


def broken(rank: int, count: int, folder: str, resume: bool) -> None:
    join(rank, count, Path(folder, f"meet-{resume}"))
    long(rank, folder, "part", kill=not resume, resume=resume)
    dist.destroy_process_group()
