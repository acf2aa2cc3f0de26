"""A small training, by one process or by several with a part of each batch."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist

from contrapose.tune.loop import train
from contrapose.tune.objective import parse_objective
from contrapose.tune.settings import Settings
from tests.tune.small import small_rows, small_student, weights

SETTINGS = Settings(steps=3, batch=6, rate=1e-2, save_every=2, log_every=1)
RUNS = {
    "hp+hn": SETTINGS,
    "eqsim+hn": Settings(steps=2, batch=6, rate=1e-2, save_every=0, pieces=3),
}


def run(objective: str, folder: Path | None = None) -> dict[str, torch.Tensor]:
    student = small_student()
    train(student, small_rows(), parse_objective(objective), RUNS[objective], folder=folder)
    return weights(student)


def main(rank: int, count: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=Path(folder, "meet").as_uri(), rank=rank, world_size=count
    )
    for number, name in enumerate(RUNS):
        torch.save(run(name, Path(folder, f"run{number}")), Path(folder, f"{number}-{rank}.pt"))
    dist.destroy_process_group()
