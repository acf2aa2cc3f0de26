"""The weights that change: which, by what, and alike in all processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import nn

from contrapose.errors import InputError
from contrapose.tune.losses.gather import processes
from contrapose.tune.settings import Settings
from contrapose.tune.students.student import Student

T = TypeVar("T")


def taught(student: Student, settings: Settings) -> dict[str, nn.Parameter]:
    """The weights that change, by name; all others are set not to.

    With low-rank updates those alone change; they have been put in before.
    """
    network = student.network
    frozen = {
        id(weight)
        for side in settings.freeze
        for module in student.towers[side]
        for weight in module.parameters()
    }
    found = {}
    for name, weight in network.named_parameters():
        free = id(weight) not in frozen and (settings.lora is None or "lora_" in name)
        weight.requires_grad_(free)
        if free:
            found[name] = weight
    if not found:
        raise InputError("nothing is left to teach: thaw a tower.")
    network.train()
    for side in settings.freeze:
        for module in student.towers[side]:
            module.eval()
    return found


def average(weights: list[nn.Parameter]) -> None:
    """Gradients become their means over the processes; what has none counts as zero."""
    job = processes()
    if job.count == 1:
        return
    for weight in weights:
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        dist.all_reduce(weight.grad)
        weight.grad /= job.count


def decided(mine: T) -> T:
    """What the first process decided, in all of them."""
    if processes().count == 1:
        return mine
    found = [mine]
    dist.broadcast_object_list(found, src=0)
    return found[0]


def everyones(mine: T) -> list[T]:
    """What each process has, in all of them."""
    count = processes().count
    if count == 1:
        return [mine]
    found: list[T] = [mine] * count
    dist.all_gather_object(found, mine)
    return found


def optimiser_of(
    weights: Mapping[str, nn.Parameter], settings: Settings, rate: float, device: str
) -> torch.optim.AdamW:
    """AdamW on these; only matrices decay."""
    groups = [
        {"params": [w for w in weights.values() if w.dim() > 1], "weight_decay": settings.decay},
        {"params": [w for w in weights.values() if w.dim() <= 1], "weight_decay": 0.0},
    ]
    fused = device.startswith("cuda")
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=rate, betas=(0.9, 0.98), fused=fused
    )
