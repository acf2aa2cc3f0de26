"""The loop: AdamW, warm-up and cosine, bf16 where there is a GPU; it can be stopped and gone on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from contrapose.models.tiny.layers import Block
from contrapose.models.tiny.network import Network
from contrapose.world.train.data import TrainSet
from contrapose.world.train.losses import Patches, contrast, go_on, match

WEIGHTS = {"itc": 1.0, "itm": 0.5, "lm": 2.0, "patches": 0.5}
"""What each loss counts for."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model is trained.

    Attributes:
        scenes: in the training set.
        steps: in all.
        batch: scenes a step.
        judged: how many of a batch the match loss looks at.
        patches: whether the image encoder is also taught what is seen in each patch.
        rate: highest learning rate.
        decay: weight decay.
        warm: steps of warm-up.
        seed: of the set, of the weights and of the batches.
    """

    scenes: int
    steps: int
    batch: int = 512
    judged: int = 128
    patches: bool = True
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
    patches = Patches(network.config.width).to(device) if recipe.patches else None
    whole = nn.ModuleList([network, *([patches] if patches else [])])
    weights = [w for w in whole.parameters() if w.dim() > 1]
    others = [w for w in whole.parameters() if w.dim() <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": weights, "weight_decay": recipe.decay},
         {"params": others, "weight_decay": 0.0}],
        lr=recipe.rate, betas=(0.9, 0.98), fused=device.type == "cuda",
    )  # fmt: skip
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
    batches = data.batches(recipe.batch, recipe.seed * 1_000_003 + done)
    begun, spent = time.perf_counter(), 0.0
    while done < recipe.steps and spent < stop_after:
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate * schedule(done, recipe, spent / stop_after)
        pixels, tokens, looks = next(batches)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            parts = step_losses(network, patches, pixels, tokens, looks, recipe.judged)
        torch.stack([WEIGHTS[name] * part for name, part in parts.items()]).sum().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(whole.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        done += 1
        spent = time.perf_counter() - begun
        if done % every == 0 or done == recipe.steps:
            values = {name: round(float(part.detach()), 4) for name, part in parts.items()}
            log({"step": done, "seconds": round(spent, 1), **values})
    if checkpoint is not None:
        state = {"network": whole.state_dict(), "optimiser": optimiser.state_dict(), "step": done}
        torch.save(state, checkpoint)
    return done


def step_losses(
    network: Network,
    patches: Patches | None,
    pixels: Tensor,
    tokens: Tensor,
    looks: Tensor,
    judged: int,
) -> dict[str, Tensor]:
    """The losses of one batch: contrast alone for a dual encoder, all otherwise."""
    seen = network.image(pixels)
    itc, logits = contrast(network, network.image.embed(seen), network.text(tokens), tokens)
    parts = {"itc": itc}
    if patches is not None:
        parts["patches"] = patches(seen, looks)
    if network.fusion is not None:
        some = slice(0, judged)
        parts["itm"] = match(network, seen[some], tokens[some], logits[some, some])
        parts["lm"] = go_on(network, seen, tokens)
    return parts


def schedule(step: int, recipe: Recipe, time_gone: float = 0.0) -> float:
    """Linear warm-up, then a cosine to zero at the last step, or when the time is over."""
    if step < recipe.warm:
        return (step + 1) / recipe.warm
    gone = max((step - recipe.warm) / max(recipe.steps - recipe.warm, 1), time_gone)
    return 0.5 * (1 + math.cos(math.pi * min(gone, 1.0)))
