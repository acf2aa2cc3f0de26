"""Trainable parameters: selection, optimizer, LoRA adapters, and equal values in all processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from contrapose.errors import InputError, MissingExtraError, option
from contrapose.losses.gather import processes
from contrapose.models.options import find_device
from contrapose.tune.settings import Settings
from contrapose.tune.students import Student

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


def select_trainable(student: Student, settings: Settings) -> dict[str, nn.Parameter]:
    """Select the trainable parameters by name and freeze all others.

    With low-rank updates those alone change; they have been put in before.
    """
    network = student.network
    frozen = {
        id(weight)
        for side in settings.freeze
        for module in student.towers[side]
        for weight in module.parameters()
    }
    trainable = {}
    for name, weight in network.named_parameters():
        free = id(weight) not in frozen and (settings.lora is None or "lora_" in name)
        weight.requires_grad_(free)
        if free:
            trainable[name] = weight
    if not trainable:
        raise InputError("nothing is left to teach: thaw a tower.")
    network.train()
    for side in settings.freeze:
        for module in student.towers[side]:
            module.eval()
    return trainable


def make_optimizer(
    weights: Mapping[str, nn.Parameter], settings: Settings, rate: float, device: str
) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices only."""
    groups = [
        {"params": [w for w in weights.values() if w.dim() > 1], "weight_decay": settings.decay},
        {"params": [w for w in weights.values() if w.dim() <= 1], "weight_decay": 0.0},
    ]
    fused = device.startswith("cuda")
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=rate, betas=(0.9, 0.98), fused=fused
    )


def add_lora(student: Student, settings: Settings) -> None:
    """Add LoRA adapters to every linear layer of the unfrozen towers.

    Raises:
        MissingExtraError: peft is not installed.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise MissingExtraError("peft", "tune", option("lora")) from None
    rank = settings.lora or 1
    wanted = {id(m) for side, modules in student.towers.items() if side not in settings.freeze
              for module in modules for m in module.modules()}  # fmt: skip
    names = [
        name
        for name, module in student.network.named_modules()
        if isinstance(module, nn.Linear) and id(module) in wanted
    ]
    if not names:
        raise InputError(f"the model has no linear layer for {option('lora')}.")
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=names)
    inject_adapter_in_model(config, student.network)


def merge_lora(student: Student) -> None:
    """Merge the LoRA adapters into their base layers and remove them."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    network: nn.Module = student.network
    for name, module in list(network.named_modules()):
        if isinstance(module, BaseTunerLayer):
            layer: Any = module
            layer.merge()
            above, _, last = name.rpartition(".")
            setattr(network.get_submodule(above), last, layer.get_base_layer())
