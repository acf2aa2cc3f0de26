"""Trainable parameters: selection, optimizer, LoRA, equal values in all processes, checkpoints.

A checkpoint holds weights, optimizer, EMA and step in one file, written atomically, with a checksum
of all of it. There is no random state: what a step draws is a function of the seed and its number.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from contrapose.errors import InputError, MissingExtraError, first_line, option
from contrapose.files import parse_json, require_regular, temporary_folder
from contrapose.files.atomic import TEMPORARY
from contrapose.files.syncing import sync_folder, sync_tree
from contrapose.losses.gather import processes
from contrapose.models.options import find_device
from contrapose.tune.settings import Settings
from contrapose.tune.students import Student

CHECKPOINT_FORMAT = "contrapose-tune-2"
BEST_CHECKPOINT = "best.safetensors"


@dataclass(slots=True)
class CheckpointState:
    """The state of a training run.

    Attributes:
        step: how many are done.
        tensors: trainable weights, moments of the optimizer, EMA weights, the teacher's cache.
        about: settings of the run, as JSON values.
    """

    step: int
    tensors: dict[str, Tensor]
    about: dict[str, Any] = field(default_factory=dict)


def architecture_hash(network: nn.Module) -> str:
    """Hash of the names and shapes of a network's weights."""
    shapes = [(name, tuple(w.shape)) for name, w in network.state_dict().items()]
    return hashlib.blake2b(repr(sorted(shapes)).encode(), digest_size=12).hexdigest()


def capture_state(
    step: int,
    trainable: Mapping[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
    mean: Mapping[str, Tensor] | None,
    about: Mapping[str, Any],
) -> CheckpointState:
    """State of a run after a step."""
    tensors = {f"weights.{name}": weight.detach() for name, weight in trainable.items()}
    for name, weight in trainable.items():
        for key, value in optimizer.state[weight].items():
            tensors[f"optimiser.{key}.{name}"] = torch.as_tensor(value)
    tensors |= {f"mean.{name}": value for name, value in (mean or {}).items()}
    return CheckpointState(step, tensors, dict(about))


def restore_state(
    state: CheckpointState,
    trainable: Mapping[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
    mean: dict[str, Tensor] | None,
) -> None:
    """Load a state into parameters, optimizer and EMA."""
    with torch.no_grad():
        for name, weight in trainable.items():
            weight.copy_(state.tensors[f"weights.{name}"])
            moments: dict[str, Tensor] = {}
            for key in ("step", "exp_avg", "exp_avg_sq"):
                value = state.tensors[f"optimiser.{key}.{name}"].clone()
                # As torch keeps it: the count on the CPU unless the optimiser is a fused one.
                fused = bool(optimizer.defaults.get("fused"))
                moments[key] = value if key == "step" and not fused else value.to(weight.device)
            optimizer.state[weight] = moments
        for name in mean or ():
            mean[name].copy_(state.tensors[f"mean.{name}"])  # type: ignore[index]


def pack_teacher_memories(memories: Sequence[Mapping[int, float]]) -> dict[str, Tensor]:
    """Pack each process's teacher cache into tensors of a state."""
    tensors = {}
    for rank, memory in enumerate(memories):
        tensors[f"teacher.texts.{rank}"] = torch.tensor(list(memory), dtype=torch.int64)
        tensors[f"teacher.found.{rank}"] = torch.tensor(list(memory.values()), dtype=torch.float64)
    return tensors


def teacher_memory(state: CheckpointState, rank: int) -> dict[int, float]:
    """Teacher cache of a process; empty where the checkpoint has none of that rank."""
    texts = state.tensors.get(f"teacher.texts.{rank}")
    if texts is None:
        return {}
    return dict(zip(texts.tolist(), state.tensors[f"teacher.found.{rank}"].tolist(), strict=True))


def checkpoint_checksum(header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    """CRC-32 of a checkpoint's step, settings, and tensors with their names and shapes."""
    checksum = zlib.crc32(f"{header['step']} {header['about']}".encode())
    for name, value in sorted(tensors.items()):
        checksum = zlib.crc32(f"{name} {value.dtype} {tuple(value.shape)}".encode(), checksum)
        content = value.contiguous().reshape(-1).view(torch.uint8).numpy()
        checksum = zlib.crc32(content.data, checksum)
    return f"{checksum:08x}"


def write_state(file: Path, state: CheckpointState) -> None:
    """Write a checkpoint atomically.

    Raises:
        InputError: it cannot be written, such as on a full disk; what was there stays.
    """
    header = {
        "format": CHECKPOINT_FORMAT,
        "step": str(state.step),
        "about": json.dumps(state.about),
    }
    tensors = {name: value.contiguous().cpu() for name, value in state.tensors.items()}
    header["checksum"] = checkpoint_checksum(header, tensors)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(file.parent, file.name) as folder:
            temporary = folder / file.name
            save_file(tensors, temporary, metadata=header)
            sync_tree(folder)
            temporary.replace(file)
        sync_folder(file.parent)
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or str(error).split("\n", maxsplit=1)[0]
        last = latest_checkpoint(file.parent)
        kept = f"the last checkpoint, {last.name}, is whole" if last else "there is none yet"
        raise InputError(
            f"the checkpoint cannot be written ({why}); {kept}. Make room and pass "
            f"{option('resume', True)}.",
            file=file,
        ) from None


def read_state(file: Path, network: nn.Module) -> CheckpointState:
    """Read a checkpoint that fits the network's architecture.

    Raises:
        InputError: it is damaged, or of another architecture.
    """
    require_regular(file)
    try:
        with safe_open(file, framework="pt") as stream:
            header = stream.metadata() or {}
            if header.get("format") != CHECKPOINT_FORMAT:
                raise InputError("is no checkpoint of contrapose tune.", file=file)
            about = parse_json(header["about"])
            if not isinstance(about, dict):
                raise ValueError("its settings are no JSON object")
            if about["architecture"] != architecture_hash(network):
                raise InputError(
                    f"is a checkpoint of another architecture; {option('resume')} needs the "
                    "model that the run began with.",
                    file=file,
                )
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
            if header["checksum"] != checkpoint_checksum(header, tensors):
                raise ValueError("its checksum is another")
            return CheckpointState(int(header["step"]), tensors, about)
    except (OSError, SafetensorError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise damaged_checkpoint(file, error) from None


def damaged_checkpoint(file: Path, error: Exception) -> InputError:
    """Error of a checkpoint that cannot be used."""
    return InputError(
        f"the checkpoint is damaged ({first_line(error)}); delete it to go on from the one before.",
        file=file,
    )


def checkpoint_name(step: int) -> str:
    """File name of a step's checkpoint."""
    return f"step-{step:08d}.safetensors"


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint in a folder, or None."""
    return max(folder.glob("step-*.safetensors"), default=None)


def prune_checkpoints(folder: Path, keep: int = 2) -> None:
    """Delete all but the newest checkpoints, and temporary folders of killed runs.

    The best one has a name of its own, and stays.
    """
    for left in folder.glob(f".*.safetensors.*{TEMPORARY}"):
        shutil.rmtree(left, ignore_errors=True)
    for old in sorted(folder.glob("step-*.safetensors"))[:-keep]:
        old.unlink(missing_ok=True)


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
