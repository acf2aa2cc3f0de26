"""Captioners of the study of priors: `tiny`'s network at 12 × 12 pixels, trained from scratch.

Evidence is weak in training, test and prior alike, as equation 7 of the paper asks: an image is
averaged to 12 × 12 pixels, its colors keep a share of their distance from gray (one of four levels,
drawn for each image), and Gaussian noise is added. The captioner learns next tokens, with the two
auxiliary heads of `tiny`'s training; it has no contrastive and no matching loss.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.models.tiny.network import (
    PAD,
    FusionDecoder,
    TinyConfig,
    TinyNetwork,
    Tokenizer,
)
from contrapose.tune.settings import learning_rate_factor
from contrapose.tune.step import GraphReplay
from contrapose.world.captions import VOCABULARY
from contrapose.world.render import pack, render_packed
from contrapose.world.sample import World
from contrapose.world.scene import Scene
from studies.priors_tests import LEVELS
from tools.train_tiny.data import SceneBatch, SceneTensors, TrainSet, generate_scenes
from tools.train_tiny.trainer import (
    LOSS_WEIGHTS,
    PatchHead,
    PositionHead,
    TrainingPhase,
    caption_loss,
    make_optimizer,
    set_learning_rate,
)

PIXELS = 12
"""Pixels across that are left of an image."""
RENDER_SIZE = 48
NOISE = 0.10
"""Standard deviation of the noise on every pixel, in −1 … 1."""
CONFIG = TinyConfig(
    len(Tokenizer(VOCABULARY)), image_layers=4, text_layers=1, fusion_layers=4,
    image_size=2 * PIXELS, patch=4,
)  # fmt: skip
SMALL_CONFIG = TinyConfig(
    len(Tokenizer(VOCABULARY)), width=48, heads=2, image_layers=1, text_layers=1, fusion_layers=1,
    image_size=2 * PIXELS, patch=4,
)  # fmt: skip
ROOM = {"cuda": 400_000, "cpu": 20_000}
"""Most caption tokens that are scored at a time."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Training of a captioner.

    Attributes:
        phase: hyperparameters; the seed is set for each captioner.
        config: sizes of the network.
        captions: captions of each scene.
    """

    phase: TrainingPhase
    config: TinyConfig
    captions: int


STUDY = Recipe(
    TrainingPhase(scenes=162_000, first=12_000, new=100, steps=1_500, batch=1024, warm=150),
    CONFIG,
    captions=3,
)
SMOKE = Recipe(
    TrainingPhase(scenes=600, first=300, new=10, steps=30, batch=32, warm=5),
    SMALL_CONFIG,
    captions=2,
)


def shrink(images: Tensor) -> Tensor:
    """Average images (n, h, w, 3) of bytes to `PIXELS` pixels across; bytes again."""
    small = F.adaptive_avg_pool2d(images.permute(0, 3, 1, 2).float(), PIXELS)
    return small.round().to(torch.uint8).permute(0, 2, 3, 1)


def render_small(scenes: Sequence[Scene], device: str) -> Tensor:
    """Render scenes and average them: bytes (n, 12, 12, 3)."""
    return shrink(render_packed(pack(list(scenes)).to(device), RENDER_SIZE).images)


def weaken(images: Tensor, shares: Tensor, random: torch.Generator) -> Tensor:
    """Pale images (n, 12, 12, 3) of bytes, add noise, and give them the encoder's size.

    Args:
        images: bytes.
        shares: (n,) share of each color's distance from gray that stays.
        random: generator of the noise, on the images' device.

    Returns:
        Pixels (n, 3, 24, 24) around −1 … 1.
    """
    pixels = images.permute(0, 3, 1, 2).float() / 127.5 - 1
    gray = pixels.mean(dim=1, keepdim=True)
    pixels = gray + shares[:, None, None, None] * (pixels - gray)
    noise = torch.randn(pixels.shape, generator=random, device=pixels.device)
    return enlarge(pixels + NOISE * noise)


def enlarge(pixels: Tensor) -> Tensor:
    """Repeat every pixel, so that the encoder's first convolution sees each by itself."""
    return pixels.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)


def seeded(seed: int, device: torch.device | str) -> torch.Generator:
    """Generator on a device."""
    return torch.Generator(device=device).manual_seed(seed)


def make_noise(count: int, like: Tensor, random: torch.Generator) -> Tensor:
    """Gaussian noise images with the mean and spread of weakened training images.

    Args:
        count: number of images.
        like: weakened images (n, 3, 24, 24).
        random: generator on their device.
    """
    shape = (count, 3, PIXELS, PIXELS)
    noise = torch.randn(shape, generator=random, device=like.device)
    return enlarge(like.mean() + like.std() * noise)


def train_captioner(
    world: World,
    seed: int,
    recipe: Recipe,
    device: str,
    *,
    workers: int,
    stop_after: float = math.inf,
    log: Callable[[dict[str, float]], None] = print,
) -> tuple[TinyNetwork, dict[str, float]]:
    """Train a captioner on scenes of a world.

    Args:
        world: world of the training scenes.
        seed: seed of weights, scenes, order and noise.
        recipe: sizes and hyperparameters.
        device: device to train on.
        workers: processes that make captions.
        stop_after: seconds after which training ends, its learning rate decayed in time.
        log: called with the losses now and then.

    Returns:
        The network in evaluation mode, and its last losses, steps and seconds.
    """
    phase, target = recipe.phase, torch.device(device)
    torch.manual_seed(seed)
    network = TinyNetwork(recipe.config).to(target).train()
    heads = nn.ModuleDict(
        {"patches": PatchHead(recipe.config.width), "places": PositionHead(recipe.config.width)}
    ).to(target)
    parameters = [
        *network.image.parameters(), *_fusion(network).parameters(), *heads.parameters()
    ]  # fmt: skip
    optimizer = make_optimizer(parameters, phase, target)

    def step(pixels: Tensor, tokens: Tensor, patches: Tensor, places: Tensor) -> dict[str, Tensor]:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(target.type, torch.bfloat16, enabled=target.type == "cuda"):
            images = network.image(pixels)
            states = _fusion(network).states(tokens, images)
            losses = {
                "lm": caption_loss(network, states, tokens),
                "patches": heads["patches"](images, patches),
                "places": heads["places"](states, places),
            }
        torch.stack([LOSS_WEIGHTS[name] * loss for name, loss in losses.items()]).sum().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return {name: loss.detach() for name, loss in losses.items()}

    run_step = GraphReplay(step) if target.type == "cuda" else step
    source = generate_scenes(
        seed, device, image_size=RENDER_SIZE, patch=RENDER_SIZE * recipe.config.patch
        // recipe.config.image_size, workers=workers, block=min(2048, phase.first), world=world,
        captions=recipe.captions,
    )  # fmt: skip
    with closing(source):
        data = TrainSet(phase.scenes, _shrink_all(source))
        data.grow(phase.first)
        started = time.perf_counter()
        values: dict[str, float] = {}
        for done, batch in enumerate(_weak_batches(data, phase, seed), start=1):
            spent = time.perf_counter() - started
            rate = learning_rate_factor(done - 1, phase.steps, phase.warm, spent / stop_after)
            for group in optimizer.param_groups:
                set_learning_rate(group, phase.rate * rate)
            losses = run_step(*batch)
            last = done == phase.steps or spent >= stop_after
            if last or done % 250 == 0:
                values = {name: float(loss) for name, loss in losses.items()}
                values |= {"steps": done, "seconds": spent, "scenes": data.ready}
                log(values)
                if not all(map(math.isfinite, values.values())):
                    raise FloatingPointError(f"the loss is no number at step {done}: {values}")
            if last:
                break
            data.grow(phase.first + done * phase.new)
    return network.eval(), values


def _shrink_all(source: Iterator[SceneTensors]) -> Iterator[SceneTensors]:
    for block in source:
        yield block._replace(images=shrink(block.images))


def _weak_batches(data: TrainSet, phase: TrainingPhase, seed: int) -> Iterator[SceneBatch]:
    """Batches for ever, each image at a random level of evidence with fresh noise."""
    device = data.scenes.images.device
    random, levels = seeded(seed, device), torch.tensor(LEVELS, device=device)
    for batch in data.batches(phase.batch, seed, mirror=True):
        size = (len(batch.images),)
        shares = levels[torch.randint(len(LEVELS), size, generator=random, device=device)]
        yield batch._replace(images=weaken(batch.images, shares, random))


@torch.no_grad()
def log_likelihoods(network: TinyNetwork, pixels: Tensor, tokens: Tensor) -> NDArray[np.float32]:
    """Log-likelihoods (i, c) of captions under images, ends of captions included.

    Args:
        network: a captioner.
        pixels: (i, 3, h, w) images.
        tokens: (i, c, l) captions of each image, or (1, c, l) captions for all images.
    """
    tokens = tokens[:, :, : int((tokens != PAD).sum(dim=2).max())].long()
    images, captions, length = len(pixels), tokens.shape[1], tokens.shape[2]
    room = max(1, ROOM[pixels.device.type] // length)
    wide = min(captions, room)
    high = max(1, room // wide)
    scores = np.empty((images, captions), np.float32)
    for top in range(0, images, high):
        rows = slice(top, top + high)
        states = network.image(pixels[rows])
        for left in range(0, captions, wide):
            columns = slice(left, left + wide)
            some = tokens[:, columns] if len(tokens) == 1 else tokens[rows, columns]
            some = some.expand(len(states), -1, -1)
            scores[rows, columns] = _score_block(network, states, some).cpu().numpy()
    return scores


def _score_block(network: TinyNetwork, states: Tensor, tokens: Tensor) -> Tensor:
    """Scores (i, c): all captions of an image attend to one copy of its keys and values."""
    fusion = _fusion(network)
    images, captions, length = tokens.shape
    keys_values = fusion.keys_values(states)
    flat = tokens.reshape(images * captions, length)
    x = fusion.words(flat) + fusion.place[:length]
    steps = torch.arange(length, device=flat.device)
    earlier = (steps[:, None] >= steps)[None, None]
    blocks: list[Any] = list(fusion.blocks)
    for i, block in enumerate(blocks):
        x = x + block.attend(block.norm_self(x), mask=earlier)
        queries = block.norm_cross(x).reshape(images, captions * length, -1)
        seen = block.look(queries, keys_values[2 * i : 2 * i + 2])
        x = x + seen.reshape(images * captions, length, -1)
        x = x + block.think(block.norm_think(x))
    logits = fusion.token_logits(fusion.norm(x))[:, :-1].float()
    losses = F.cross_entropy(
        logits.flatten(0, 1), flat[:, 1:].flatten(), ignore_index=PAD, reduction="none"
    )
    return -losses.view(images, captions, length - 1).sum(dim=2)


def _fusion(network: TinyNetwork) -> FusionDecoder:
    fusion = network.fusion
    assert fusion is not None  # noqa: S101 - a captioner has one
    return fusion
