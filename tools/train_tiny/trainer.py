"""Trainer: BLIP's three losses, two auxiliary heads, AdamW with warm-up and cosine."""

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
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.files import write_bytes
from contrapose.losses import InfoNCE, LossBatch
from contrapose.losses.match import binary_matching_loss, sample_hard_negatives
from contrapose.models.tiny.model import scale_pixels
from contrapose.models.tiny.network import MATCH, PAD, TinyNetwork, TransformerBlock
from contrapose.tune.settings import learning_rate_factor
from contrapose.tune.step import GraphReplay
from contrapose.world.scene import COLORS, SHAPES
from tools.train_tiny.data import SceneBatch, TrainSet


def contrastive_loss(
    network: TinyNetwork, image: Tensor, text: Tensor, tokens: Tensor
) -> tuple[Tensor, Tensor]:
    """Symmetric InfoNCE over the batch; equal captions are not negatives of each other.

    Returns:
        The loss, and the detached logits (b, b), −1e4 where another caption is the same.
    """
    same = (tokens[:, None] == tokens[None]).all(dim=-1)
    first = same.int().argmax(dim=1)  # the first of equal captions
    scale = network.log_scale.exp().clamp(max=100)
    loss = InfoNCE()(LossBatch(image, text, scale=scale, same=first))
    with torch.no_grad(), torch.autocast(image.device.type, enabled=False):
        logits = scale * (image.float() @ text.float().T)
        return loss, logits.masked_fill(same.fill_diagonal_(False), -1e4)


class PatchHead(nn.Module):
    """Auxiliary head that predicts color and shape of each patch; dropped after training.

    BLIP's image encoder is pretrained on labeled images. This one starts from random weights, and
    this loss replaces that training.
    """

    def __init__(self, width: int):
        super().__init__()
        self.project = nn.Linear(width, len(COLORS) + 1 + len(SHAPES) + 1)

    def forward(self, states: Tensor, patches: Tensor) -> Tensor:
        """Cross-entropy of color and shape, over all patches."""
        colors, shapes = (
            self.project(states).float().split([len(COLORS) + 1, len(SHAPES) + 1], dim=-1)
        )
        return F.cross_entropy(colors.flatten(0, 1), patches[..., 0].flatten()) + F.cross_entropy(
            shapes.flatten(0, 1), patches[..., 1].flatten()
        )


def hard_matching_loss(
    network: TinyNetwork, states: Tensor, tokens: Tensor, logits: Tensor
) -> Tensor:
    """Matching loss of right pairs against sampled hard negatives of each image and caption.

    Negatives are drawn by the contrastive similarity, as in ALBEF and BLIP.
    """
    fusion = network.fusion
    assert fusion is not None  # noqa: S101 - only called for networks that have one
    prompts = tokens.clone()
    prompts[:, 0] = MATCH
    away = logits.clone().fill_diagonal_(-1e4)
    other_text, other_image = sample_hard_negatives(away), sample_hard_negatives(away.T)
    scores = fusion.match(
        torch.cat([prompts, prompts[other_text], prompts]),
        torch.cat([states, states, states[other_image]]),
    ).float()
    return binary_matching_loss(scores, len(tokens)).mean()


def caption_loss(network: TinyNetwork, states: Tensor, tokens: Tensor) -> Tensor:
    """Cross-entropy of each next token of the caption, including the end token."""
    fusion = network.fusion
    assert fusion is not None  # noqa: S101 - only called for networks that have one
    logits = fusion.token_logits(states)[:, :-1].float()
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=PAD)


class PositionHead(nn.Module):
    """Auxiliary head that predicts the position of a noun's thing; dropped after training.

    Without it "left" and "right" stayed at chance for millions of scenes: the network must attend
    to the thing just named and read its position, and neither alone lowers the other losses.
    """

    BINS = 12

    def __init__(self, width: int):
        super().__init__()
        self.project = nn.Linear(width, 2 * self.BINS)

    def forward(self, states: Tensor, places: Tensor) -> Tensor:
        """Cross-entropy of column and row among `BINS` each, over the ends of nouns."""
        logits = self.project(states).float().unflatten(-1, (2, self.BINS))
        target = (places * self.BINS).long().clamp(0, self.BINS - 1)
        target = torch.where(places >= 0, target, -1)
        return 2 * F.cross_entropy(logits.flatten(0, 2), target.flatten(), ignore_index=-1)


LOSS_WEIGHTS = {"itc": 1.0, "itm": 0.5, "lm": 2.0, "patches": 0.5, "places": 0.5}
"""Weight of each loss."""


@dataclass(frozen=True, slots=True)
class TrainingPhase:
    """Hyperparameters of one training phase.

    Attributes:
        scenes: final size of the training set.
        first: scenes that are needed before the first step.
        new: scenes that are added with each step.
        steps: number of steps.
        batch: scenes per step.
        judged: scenes of a batch that the matching loss uses.
        patches: train the head that predicts color and shape of each patch.
        rate: peak learning rate.
        places: train the head that predicts the positions of the things that nouns name.
        mirror: mirror half of the scenes.
        frozen: train only the contrastive loss of the text encoder and the image projection, which
            leaves memory for far larger batches.
        decay: weight decay.
        warm: warm-up steps.
        seed: seed of the set, of the weights and of the batches.
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
    network: TinyNetwork,
    data: TrainSet,
    phase: TrainingPhase,
    *,
    checkpoint: Path | None = None,
    stop_after: float = math.inf,
    compiled: bool = False,
    log: Callable[[dict[str, Any]], None] = print,
    every: int = 200,
) -> int:
    """Train until the last step of the phase, or until time runs out.

    Args:
        network: the network on its device; trained in place.
        data: the training set on the same device.
        phase: hyperparameters.
        checkpoint: file of weights and optimizer; training resumes from it if it exists.
        stop_after: seconds after which training stops with a checkpoint.
        compiled: compile the transformer blocks: faster on a GPU, after some seconds.
        log: called with the losses.
        every: steps between two calls of `log`.

    Returns:
        The total number of steps done.
    """
    device = network.log_scale.device
    heads = _make_heads(network, phase).to(device)
    modules = nn.ModuleList([network, *heads.values()])
    parameters = _trainable_parameters(network, phase) or list(modules.parameters())
    optimizer = make_optimizer(parameters, phase, device)
    done = 0
    if checkpoint is not None and checkpoint.is_file():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        modules.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        done = int(state["step"])
    if compiled:
        for block in network.modules():
            if isinstance(block, TransformerBlock):
                block.compile(dynamic=False)

    def step(*batch: Tensor) -> dict[str, Tensor]:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            parts = step_losses(network, heads, SceneBatch(*batch), phase)
        torch.stack([LOSS_WEIGHTS[name] * part for name, part in parts.items()]).sum().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return {name: part.detach() for name, part in parts.items()}

    run_step = GraphReplay(step) if device.type == "cuda" else step
    data.grow(phase.first)
    batches = data.batches(phase.batch, phase.seed * 1_000_003 + done, mirror=phase.mirror)
    started, spent = time.perf_counter(), 0.0
    while done < phase.steps and spent < stop_after:
        data.grow(phase.first + done * phase.new)
        for group in optimizer.param_groups:
            set_learning_rate(
                group,
                phase.rate
                * learning_rate_factor(done, phase.steps, phase.warm, spent / stop_after),
            )
        parts = run_step(*next(batches))
        done += 1
        if done % every == 0 or done == phase.steps:
            values = {name: round(float(part), 4) for name, part in parts.items()}
            log({"step": done, "seconds": round(spent, 1), "scenes": data.ready, **values})
            if not all(map(math.isfinite, values.values())):
                raise FloatingPointError(f"the loss is no number at step {done}: {values}")
        spent = time.perf_counter() - started
    if checkpoint is not None:
        state = {"network": modules.state_dict(), "optimizer": optimizer.state_dict(), "step": done}
        content = io.BytesIO()
        torch.save(state, content)
        write_bytes(checkpoint, content.getvalue())
    return done


def _trainable_parameters(network: TinyNetwork, phase: TrainingPhase) -> list[nn.Parameter]:
    """Trainable parameters of a frozen phase; empty where all are trained."""
    if not phase.frozen:
        return []
    return [
        *network.text.parameters(), *network.image.project.parameters(), network.log_scale
    ]  # fmt: skip


def make_optimizer(
    parameters: list[nn.Parameter], phase: TrainingPhase, device: torch.device
) -> torch.optim.Optimizer:
    """AdamW; on a GPU the learning rate is a tensor, which a CUDA graph reads at each replay."""
    gpu = device.type == "cuda"
    rate = torch.tensor(phase.rate, device=device) if gpu else phase.rate
    return torch.optim.AdamW(
        [{"params": [w for w in parameters if w.dim() > 1], "weight_decay": phase.decay},
         {"params": [w for w in parameters if w.dim() <= 1], "weight_decay": 0.0}],
        lr=rate, betas=(0.9, 0.98), fused=gpu, capturable=gpu,
    )  # fmt: skip


def set_learning_rate(group: dict[str, Any], rate: float) -> None:
    """Set the learning rate of a parameter group, in place where a CUDA graph reads it."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def _make_heads(network: TinyNetwork, phase: TrainingPhase) -> nn.ModuleDict:
    """Auxiliary heads by the name of their loss; they are not part of the saved model."""
    width, heads = network.config.width, nn.ModuleDict()
    if phase.frozen:
        return heads
    if phase.patches:
        heads["patches"] = PatchHead(width)
    if phase.places and network.fusion is not None:
        heads["places"] = PositionHead(width)
    return heads


def step_losses(
    network: TinyNetwork, heads: nn.ModuleDict, batch: SceneBatch, phase: TrainingPhase
) -> dict[str, Tensor]:
    """Losses of one batch: contrastive only for dual encoders and frozen phases, else all."""
    tokens = batch.tokens
    with torch.set_grad_enabled(torch.is_grad_enabled() and not phase.frozen):
        image_states = network.image(scale_pixels(batch.images))
    itc, logits = contrastive_loss(
        network, network.image.embed(image_states), network.text(tokens), tokens
    )
    parts = {"itc": itc}
    if "patches" in heads:
        parts["patches"] = heads["patches"](image_states, batch.patches)
    if network.fusion is not None and not phase.frozen:
        some = slice(0, phase.judged)
        parts["itm"] = hard_matching_loss(
            network, image_states[some], tokens[some], logits[some, some]
        )
        states = network.fusion.states(tokens, image_states)
        parts["lm"] = caption_loss(network, states, tokens)
        if "places" in heads:
            parts["places"] = heads["places"](states, batch.places)
    return parts
