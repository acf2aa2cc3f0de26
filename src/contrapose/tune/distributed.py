"""Data-parallel training: the process group of a `torchrun` job, and its collectives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import nn

from contrapose.losses.gather import processes
from contrapose.models.options import find_device

T = TypeVar("T")


@contextmanager
def process_group(device: str = "auto") -> Iterator[str]:
    """Process group of a torchrun job; yields this process's device.

    Without torchrun there is one process, and nothing is done.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    here = find_device(device)
    if count < 2 or dist.is_initialized():
        yield here
        return
    if here == "cuda":
        here = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        torch.cuda.set_device(here)
    dist.init_process_group("nccl" if here.startswith("cuda") else "gloo")
    try:
        yield here
    finally:
        dist.destroy_process_group()


def average_gradients(weights: list[nn.Parameter]) -> None:
    """Average gradients over processes; a missing gradient counts as zero."""
    job = processes()
    if job.count == 1:
        return
    for weight in weights:
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        dist.all_reduce(weight.grad)
        weight.grad /= job.count


def broadcast_object(mine: T) -> T:
    """Broadcast an object from the first process."""
    if processes().count == 1:
        return mine
    objects = [mine]
    dist.broadcast_object_list(objects, src=0)
    return objects[0]


def gather_objects(mine: T) -> list[T]:
    """All-gather an object of each process."""
    count = processes().count
    if count == 1:
        return [mine]
    objects: list[T] = [mine] * count
    dist.all_gather_object(objects, mine)
    return objects
