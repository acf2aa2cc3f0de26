"""Low-rank updates by peft: small matrices beside the linear layers are taught, and then added."""

from __future__ import annotations

from typing import Any

from torch import nn

from contrapose.errors import InputError, MissingExtraError
from contrapose.tune.settings import Settings
from contrapose.tune.students.student import Student


def add_lora(student: Student, settings: Settings) -> None:
    """Put low-rank updates beside every linear layer of the towers that are not frozen.

    Raises:
        MissingExtraError: peft is not installed.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise MissingExtraError("peft", "tune", "--lora") from None
    rank = settings.lora or 1
    wanted = {id(m) for side, modules in student.towers.items() if side not in settings.freeze
              for module in modules for m in module.modules()}  # fmt: skip
    names = [
        name
        for name, module in student.network.named_modules()
        if isinstance(module, nn.Linear) and id(module) in wanted
    ]
    if not names:
        raise InputError("the model has no linear layer for --lora.")
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=names)
    inject_adapter_in_model(config, student.network)


def merge_lora(student: Student) -> None:
    """Add the updates to the layers that they stand beside, and take them away."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    network: nn.Module = student.network
    for name, module in list(network.named_modules()):
        if isinstance(module, BaseTunerLayer):
            layer: Any = module
            layer.merge()
            above, _, last = name.rpartition(".")
            setattr(network.get_submodule(above), last, layer.get_base_layer())
