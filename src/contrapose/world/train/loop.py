"""The loop: AdamW, warm-up and cosine, bf16 where there is a GPU; it can be stopped and gone on."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from contrapose.files import write_bytes
from contrapose.models.tiny.layers import Block
from contrapose.models.tiny.model import to_range
from contrapose.models.tiny.network import Network
from contrapose.world.train.captured import Captured
from contrapose.world.train.data import Batch, TrainSet
from contrapose.world.train.losses import Patches, Places, contrast, go_on, match

WEIGHTS = {"itc": 1.0, "itm": 0.5, "lm": 2.0, "patches": 0.5, "places": 0.5}
"""What each loss counts for."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model is trained.

    Attributes:
        scenes: in the training set, in the end.
        first: how many of them must be there before the first step.
        new: how many more come with each step, while the training goes on.
        steps: in all.
        batch: scenes a step.
        judged: how many of a batch the match loss looks at.
        patches: whether the image encoder is also taught what is seen in each patch.
        rate: highest learning rate.
        places: whether the text network is also taught where the things are that nouns name.
        mirror: show half of the scenes mirrored.
        frozen: teach the contrast alone, to the text encoder and the image's projection; all else
            stays as it is, which leaves room for far more captions to be told apart in a step.
        decay: weight decay.
        warm: steps of warm-up.
        seed: of the set, of the weights and of the batches.
    """

    scenes: int
    steps: int
    first: int = 50_000
    new: int = 30
    batch: int = 512
    judged: int = 128
    patches: bool = True
    places: bool = True
    mirror: bool = True
    frozen: bool = False
    rate: float = 1e-3
    decay: float = 0.05
    warm: int = 500
    seed: int = 1


def train(
    network: Network,
    data: TrainSet,
    recipe: Recipe,
    *,
    checkpoint: Path | None = None,
    stop_after: float = math.inf,
    compiled: bool = False,
    log: Callable[[dict[str, Any]], None] = print,
    every: int = 200,
) -> int:
    """Train until the recipe's last step, or until the time is over.

    Args:
        network: on its device; trained in place.
        data: the set, on the same device.
        recipe: how.
        checkpoint: where weights and optimiser are kept; training goes on from it if it is there.
        stop_after: seconds after which to stop at a checkpoint.
        compiled: let torch compile the blocks: faster on a GPU, after some seconds.
        log: told the losses now and then.
        every: how many steps between two logs.

    Returns:
        The number of steps done in all.
    """
    device = network.log_scale.device
    helpers = _helpers(network, recipe).to(device)
    whole = nn.ModuleList([network, *helpers.values()])
    taught = _taught(network, recipe) or list(whole.parameters())
    optimiser = _optimiser(taught, recipe, device)
    done = 0
    if checkpoint is not None and checkpoint.is_file():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        whole.load_state_dict(state["network"])
        optimiser.load_state_dict(state["optimiser"])
        done = int(state["step"])
    if compiled:
        for block in network.modules():
            if isinstance(block, Block):
                block.compile(dynamic=False)

    def step(*batch: Tensor) -> dict[str, Tensor]:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            parts = step_losses(network, helpers, Batch(*batch), recipe)
        torch.stack([WEIGHTS[name] * part for name, part in parts.items()]).sum().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(taught, 1.0)
        optimiser.step()
        return {name: part.detach() for name, part in parts.items()}

    take = Captured(step) if device.type == "cuda" else step
    data.grow(recipe.first)
    batches = data.batches(recipe.batch, recipe.seed * 1_000_003 + done, mirror=recipe.mirror)
    begun, spent = time.perf_counter(), 0.0
    while done < recipe.steps and spent < stop_after:
        data.grow(recipe.first + done * recipe.new)
        for group in optimiser.param_groups:
            _set_rate(group, recipe.rate * schedule(done, recipe, spent / stop_after))
        parts = take(*next(batches))
        done += 1
        if done % every == 0 or done == recipe.steps:
            values = {name: round(float(part), 4) for name, part in parts.items()}
            log({"step": done, "seconds": round(spent, 1), "scenes": data.ready, **values})
            if not all(map(math.isfinite, values.values())):
                raise FloatingPointError(f"the loss is no number at step {done}: {values}")
        spent = time.perf_counter() - begun
    if checkpoint is not None:
        state = {"network": whole.state_dict(), "optimiser": optimiser.state_dict(), "step": done}
        content = io.BytesIO()
        torch.save(state, content)
        write_bytes(checkpoint, content.getvalue())
    return done


def _taught(network: Network, recipe: Recipe) -> list[nn.Parameter]:
    """What alone changes where the rest is frozen; nothing where all is taught."""
    if not recipe.frozen:
        return []
    return [
        *network.text.parameters(), *network.image.project.parameters(), network.log_scale
    ]  # fmt: skip


def _optimiser(
    taught: list[nn.Parameter], recipe: Recipe, device: torch.device
) -> torch.optim.Optimizer:
    """AdamW; its rate is a tensor on a GPU, where a captured step reads it anew each time."""
    gpu = device.type == "cuda"
    rate = torch.tensor(recipe.rate, device=device) if gpu else recipe.rate
    return torch.optim.AdamW(
        [{"params": [w for w in taught if w.dim() > 1], "weight_decay": recipe.decay},
         {"params": [w for w in taught if w.dim() <= 1], "weight_decay": 0.0}],
        lr=rate, betas=(0.9, 0.98), fused=gpu, capturable=gpu,
    )  # fmt: skip


def _set_rate(group: dict[str, Any], rate: float) -> None:
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def _helpers(network: Network, recipe: Recipe) -> nn.ModuleDict:
    """What learns beside the network and is left behind, by the name of its loss."""
    width, found = network.config.width, nn.ModuleDict()
    if recipe.frozen:
        return found
    if recipe.patches:
        found["patches"] = Patches(width)
    if recipe.places and network.fusion is not None:
        found["places"] = Places(width)
    return found


def step_losses(
    network: Network, helpers: nn.ModuleDict, batch: Batch, recipe: Recipe
) -> dict[str, Tensor]:
    """The losses of one batch: contrast alone for a dual encoder or a frozen one, else all."""
    tokens = batch.tokens
    with torch.set_grad_enabled(torch.is_grad_enabled() and not recipe.frozen):
        seen = network.image(to_range(batch.images))
    itc, logits = contrast(network, network.image.embed(seen), network.text(tokens), tokens)
    parts = {"itc": itc}
    if "patches" in helpers:
        parts["patches"] = helpers["patches"](seen, batch.patches)
    if network.fusion is not None and not recipe.frozen:
        some = slice(0, recipe.judged)
        parts["itm"] = match(network, seen[some], tokens[some], logits[some, some])
        states = network.fusion.states(tokens, seen)
        parts["lm"] = go_on(network, states, tokens)
        if "places" in helpers:
            parts["places"] = helpers["places"](states, batch.places)
    return parts


def schedule(step: int, recipe: Recipe, time_gone: float = 0.0) -> float:
    """Linear warm-up, then a cosine to zero at the last step, or when the time is over."""
    if step < recipe.warm:
        return (step + 1) / recipe.warm
    gone = max((step - recipe.warm) / max(recipe.steps - recipe.warm, 1), time_gone)
    return 0.5 * (1 + math.cos(math.pi * min(gone, 1.0)))
