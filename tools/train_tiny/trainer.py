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
from contrapose.models.tiny.network import TinyNetwork, TransformerBlock
from contrapose.models.tiny.tokenizer import MATCH, PAD
from contrapose.tune.cuda_graph import GraphReplay
from contrapose.tune.settings import learning_rate_factor
from contrapose.world.scene import COLORS, SHAPES
from tools.train_tiny.data import SceneBatch, TrainSet


def contrastive_loss(
    network: TinyNetwork, image: Tensor, text: Tensor, tokens: Tensor
) -> tuple[Tensor, Tensor]:
    """Symmetric InfoNCE over the batch; equal captions are not negatives of each other.

    Returns:
        The loss, and the similarities (b, b) with the same captions taken out off the diagonal.
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

    BLIP's image encoder comes to the three losses already trained on labeled images. This one
    starts from nothing, and this loss stands in for that training.
    """

    def __init__(self, width: int):
        super().__init__()
        self.tell = nn.Linear(width, len(COLORS) + 1 + len(SHAPES) + 1)

    def forward(self, seen: Tensor, patches: Tensor) -> Tensor:
        """Cross-entropy of color and shape, over all patches."""
        colors, shapes = self.tell(seen).float().split([len(COLORS) + 1, len(SHAPES) + 1], dim=-1)
        return F.cross_entropy(colors.flatten(0, 1), patches[..., 0].flatten()) + F.cross_entropy(
            shapes.flatten(0, 1), patches[..., 1].flatten()
        )


def hard_matching_loss(
    network: TinyNetwork, seen: Tensor, tokens: Tensor, logits: Tensor
) -> Tensor:
    """Matching loss of right pairs against sampled hard negatives of each image and caption.

    Negatives are drawn by the contrastive similarity, as in ALBEF and BLIP.
    """
    fusion = network.fusion
    assert fusion is not None  # noqa: S101 - only called for networks that have one
    judged = tokens.clone()
    judged[:, 0] = MATCH
    away = logits.clone().fill_diagonal_(-1e4)
    other_text, other_image = sample_hard_negatives(away), sample_hard_negatives(away.T)
    answers = fusion.match(
        torch.cat([judged, judged[other_text], judged]),
        torch.cat([seen, seen, seen[other_image]]),
    ).float()
    return binary_matching_loss(answers, len(tokens)).mean()


def caption_loss(network: TinyNetwork, states: Tensor, tokens: Tensor) -> Tensor:
    """Cross-entropy of each next token of the caption, including the end token."""
    fusion = network.fusion
    assert fusion is not None  # noqa: S101 - only called for networks that have one
    logits = fusion.after(states)[:, :-1].float()
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=PAD)


class PositionHead(nn.Module):
    """Auxiliary head that predicts the position of a noun's thing; dropped after training.

    Without it "left" and "right" stayed at chance for millions of scenes: to tell them the network
    must look at the thing just named and read its place off, and neither pays without the other.
    """

    BINS = 12

    def __init__(self, width: int):
        super().__init__()
        self.tell = nn.Linear(width, 2 * self.BINS)

    def forward(self, states: Tensor, places: Tensor) -> Tensor:
        """Cross-entropy of column and row among `BINS` each, over the ends of nouns."""
        told = self.tell(states).float().unflatten(-1, (2, self.BINS))
        aim = (places * self.BINS).long().clamp(0, self.BINS - 1)
        aim = torch.where(places >= 0, aim, -1)
        return 2 * F.cross_entropy(told.flatten(0, 2), aim.flatten(), ignore_index=-1)


LOSS_WEIGHTS = {"itc": 1.0, "itm": 0.5, "lm": 2.0, "patches": 0.5, "places": 0.5}
"""What each loss counts for."""


@dataclass(frozen=True, slots=True)
class TrainingPhase:
    """Hyperparameters of one training phase.

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
    network: TinyNetwork,
    data: TrainSet,
    recipe: TrainingPhase,
    *,
    checkpoint: Path | None = None,
    stop_after: float = math.inf,
    compiled: bool = False,
    log: Callable[[dict[str, Any]], None] = print,
    every: int = 200,
) -> int:
    """Train until the last step of the phase, or until time runs out.

    Args:
        network: on its device; trained in place.
        data: the set, on the same device.
        recipe: how.
        checkpoint: where weights and optimizer are kept; training goes on from it if it is there.
        stop_after: seconds after which to stop at a checkpoint.
        compiled: let torch compile the blocks: faster on a GPU, after some seconds.
        log: told the losses now and then.
        every: how many steps between two logs.

    Returns:
        The number of steps done in all.
    """
    device = network.log_scale.device
    helpers = _make_heads(network, recipe).to(device)
    whole = nn.ModuleList([network, *helpers.values()])
    taught = _trainable_parameters(network, recipe) or list(whole.parameters())
    optimiser = _make_optimizer(taught, recipe, device)
    done = 0
    if checkpoint is not None and checkpoint.is_file():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        whole.load_state_dict(state["network"])
        optimiser.load_state_dict(state["optimiser"])
        done = int(state["step"])
    if compiled:
        for block in network.modules():
            if isinstance(block, TransformerBlock):
                block.compile(dynamic=False)

    def step(*batch: Tensor) -> dict[str, Tensor]:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            parts = step_losses(network, helpers, SceneBatch(*batch), recipe)
        torch.stack([LOSS_WEIGHTS[name] * part for name, part in parts.items()]).sum().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(taught, 1.0)
        optimiser.step()
        return {name: part.detach() for name, part in parts.items()}

    take = GraphReplay(step) if device.type == "cuda" else step
    data.grow(recipe.first)
    batches = data.batches(recipe.batch, recipe.seed * 1_000_003 + done, mirror=recipe.mirror)
    begun, spent = time.perf_counter(), 0.0
    while done < recipe.steps and spent < stop_after:
        data.grow(recipe.first + done * recipe.new)
        for group in optimiser.param_groups:
            _set_learning_rate(
                group, recipe.rate * learning_rate_scale(done, recipe, spent / stop_after)
            )
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


def _trainable_parameters(network: TinyNetwork, recipe: TrainingPhase) -> list[nn.Parameter]:
    """Trainable parameters of a frozen phase; empty where all are trained."""
    if not recipe.frozen:
        return []
    return [
        *network.text.parameters(), *network.image.project.parameters(), network.log_scale
    ]  # fmt: skip


def _make_optimizer(
    taught: list[nn.Parameter], recipe: TrainingPhase, device: torch.device
) -> torch.optim.Optimizer:
    """AdamW; on a GPU the learning rate is a tensor, which a CUDA graph reads at each replay."""
    gpu = device.type == "cuda"
    rate = torch.tensor(recipe.rate, device=device) if gpu else recipe.rate
    return torch.optim.AdamW(
        [{"params": [w for w in taught if w.dim() > 1], "weight_decay": recipe.decay},
         {"params": [w for w in taught if w.dim() <= 1], "weight_decay": 0.0}],
        lr=rate, betas=(0.9, 0.98), fused=gpu, capturable=gpu,
    )  # fmt: skip


def _set_learning_rate(group: dict[str, Any], rate: float) -> None:
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def _make_heads(network: TinyNetwork, recipe: TrainingPhase) -> nn.ModuleDict:
    """Auxiliary heads by the name of their loss; they are not part of the saved model."""
    width, found = network.config.width, nn.ModuleDict()
    if recipe.frozen:
        return found
    if recipe.patches:
        found["patches"] = PatchHead(width)
    if recipe.places and network.fusion is not None:
        found["places"] = PositionHead(width)
    return found


def step_losses(
    network: TinyNetwork, helpers: nn.ModuleDict, batch: SceneBatch, recipe: TrainingPhase
) -> dict[str, Tensor]:
    """Losses of one batch: contrastive only for dual encoders and frozen phases, else all."""
    tokens = batch.tokens
    with torch.set_grad_enabled(torch.is_grad_enabled() and not recipe.frozen):
        seen = network.image(scale_pixels(batch.images))
    itc, logits = contrastive_loss(network, network.image.embed(seen), network.text(tokens), tokens)
    parts = {"itc": itc}
    if "patches" in helpers:
        parts["patches"] = helpers["patches"](seen, batch.patches)
    if network.fusion is not None and not recipe.frozen:
        some = slice(0, recipe.judged)
        parts["itm"] = hard_matching_loss(network, seen[some], tokens[some], logits[some, some])
        states = network.fusion.states(tokens, seen)
        parts["lm"] = caption_loss(network, states, tokens)
        if "places" in helpers:
            parts["places"] = helpers["places"](states, batch.places)
    return parts


def learning_rate_scale(step: int, recipe: TrainingPhase, time_gone: float = 0.0) -> float:
    """Learning-rate factor of a phase, which ends at its last step or at the deadline."""
    return learning_rate_factor(step, recipe.steps, recipe.warm, time_gone)
