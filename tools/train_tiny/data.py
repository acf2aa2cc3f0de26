"""Training data: scenes captioned in worker processes, rendered and batched on the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import cache, partial
from itertools import count as count_from
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.errors import InputError
from contrapose.models.tiny.network import BYTES, END, PAD, SPECIAL, START, Tokenizer
from contrapose.world.captions import VOCABULARY, Caption, describe
from contrapose.world.captions.describe import TRAINING_KIND_WEIGHTS
from contrapose.world.render import PackedScenes, are_visible, pack, render_packed
from contrapose.world.sample import World, sample_scene
from contrapose.world.scene import COLORS, MOST_THINGS, SHAPES, Scene

CAPTIONS_PER_SCENE = 6
"""Captions of each scene; one is drawn each time the scene is used."""
MAX_TOKENS = 32
"""Most tokens of a training caption, start and end included; a multiple of 8 suits attention."""
SPELLING_RATE = 0.01
"""Probability that a known word is spelled in bytes, so that bytes are learned too."""
MIN_PATCH_SHARE = 0.12
"""Least share of a patch that a thing must fill to be its label."""
MIN_VISIBLE, MIN_PIXELS = 0.45, 10
"""Least visible fraction of every thing of a scene, and least visible pixels at 48 px."""

CaptionBlock = tuple[PackedScenes, Tensor, NDArray[np.int16], NDArray[np.int8]]
"""Scenes, codes of their things, token numbers of their captions, and the things of nouns."""


class SceneTensors(NamedTuple):
    """Captioned and rendered scenes on the device.

    Attributes:
        images: (n, h, w, 3) bytes.
        tokens: (n, c, l) token numbers of c captions each, START … END, padded.
        nouns: (n, c, l) at the last token of a noun the number of the thing it names, from 1;
            0 elsewhere.
        patches: (n, p, 2) color and shape code of each patch; 0 for none.
        places: (n, 5, 2) center of each thing in the image, right and down, from 0 to 1.
    """

    images: Tensor
    tokens: Tensor
    nouns: Tensor
    patches: Tensor
    places: Tensor


def generate_scenes(
    seed: int,
    device: str,
    *,
    image_size: int = 96,
    patch: int = 12,
    workers: int = 8,
    block: int = 4096,
    world: World = "skewed",
    captions: int = CAPTIONS_PER_SCENE,
) -> Generator[SceneTensors, None, None]:
    """Generate captioned, well visible scenes in blocks, for ever; the same for the same seed.

    Args:
        seed: seed of the scenes and captions.
        device: device of the renderer and the result.
        image_size: side of an image in pixels.
        patch: side of the image encoder's patches in pixels.
        workers: processes that make captions; with one, this process does.
        block: scenes per block; like `workers`, it does not change the scenes.
        world: world whose odds are used.
        captions: number of captions of each scene.
    """
    job = partial(_caption_block, count=block, seed=seed, world=world, captions=captions)
    for packed, things, rows, nouns in _caption_blocks(job, block, workers):
        on_device = packed.to(device)
        has_caption = torch.from_numpy(rows[:, 0, 0] != PAD).to(device)
        keep = (is_well_visible(on_device) & has_caption).nonzero().squeeze(1)
        drawn = render_packed(on_device, image_size)
        index = drawn.index[keep]
        yield SceneTensors(
            drawn.images[keep],
            torch.from_numpy(rows).to(device)[keep],
            torch.from_numpy(nouns).to(device)[keep],
            patch_labels(index, things.to(device)[keep], patch),
            thing_centers(index),
        )


def look_codes(scenes: Sequence[Scene]) -> Tensor:
    """(n, 5, 2) code of each thing's color and shape, from 1; 0 where there is no thing."""
    colors = list(COLORS)
    rows = torch.zeros(len(scenes), MOST_THINGS, 2, dtype=torch.int8)
    for i, scene in enumerate(scenes):
        for j, thing in enumerate(scene.things):
            rows[i, j, 0] = colors.index(thing.color) + 1
            rows[i, j, 1] = SHAPES.index(thing.shape) + 1
    return rows


def patch_labels(index: Tensor, things: Tensor, patch: int) -> Tensor:
    """(n, p, 2) color and shape of the thing that fills most of each patch, 0 if none does.

    The labels of the auxiliary loss of the image encoder.
    """
    shares = torch.stack(
        [F.avg_pool2d((index == k).half()[:, None], patch)[:, 0] for k in range(MOST_THINGS)], 1
    ).flatten(2)
    most, which = shares.max(dim=1)
    labels = things.gather(1, which[:, :, None].expand(-1, -1, 2))
    return labels * (most > MIN_PATCH_SHARE)[:, :, None]


def thing_centers(index: Tensor) -> Tensor:
    """(n, 5, 2) mean pixel position of each thing, right and down from 0 to 1; 0 if none."""
    steps = (torch.arange(index.shape[1], device=index.device) + 0.5) / index.shape[1]
    centers = []
    for k in range(MOST_THINGS):
        mask = (index == k).float()
        size = mask.sum(dim=(1, 2)).clamp(min=1)
        sums = [(mask.sum(axis) * steps).sum(1) for axis in (1, 2)]
        centers.append(torch.stack(sums, 1) / size[:, None])
    return torch.stack(centers, 1)


def is_well_visible(packed: PackedScenes) -> Tensor:
    """Whether all things of each scene are visible enough to be described."""
    return are_visible(packed, fraction=MIN_VISIBLE, pixels=MIN_PIXELS)


def _caption_blocks(
    job: Callable[[int], CaptionBlock], block: int, workers: int
) -> Generator[CaptionBlock, None, None]:
    """Captioned blocks of scenes, for ever; from worker processes where there are several."""
    if workers < 2:
        yield from map(job, count_from(0, block))
        return
    # Forked processes of a program with threads can hang, so these are spawned.
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        waiting = deque(pool.submit(job, i * block) for i in range(2 * workers))
        try:
            for i in count_from(2 * workers):
                ready = waiting.popleft().result()
                waiting.append(pool.submit(job, i * block))
                yield ready
        finally:
            for future in waiting:
                future.cancel()


def _caption_block(first: int, count: int, seed: int, world: World, captions: int) -> CaptionBlock:
    tokenizer = Tokenizer(VOCABULARY)
    scenes = [sample_scene(seed, first + i, world) for i in range(count)]
    rows = np.full((count, captions, MAX_TOKENS), PAD, dtype=np.int16)
    nouns = np.zeros((count, captions, MAX_TOKENS), dtype=np.int8)
    names, weights = tuple(TRAINING_KIND_WEIGHTS), tuple(TRAINING_KIND_WEIGHTS.values())
    for i, scene in enumerate(scenes):
        rng = np.random.default_rng((seed, first + i, 1))
        for j in range(captions):
            kind = names[int(rng.choice(len(names), p=weights))]
            caption = describe(scene, rng, kind) or describe(scene, rng)
            if caption is None:
                continue
            words, named = tokenize_caption(caption, tokenizer)
            if rng.random() < SPELLING_RATE * len(words):
                at = int(rng.integers(len(words)))
                spelled = tokenizer.spell(tokenizer.decode(words[at : at + 1]))
                words[at : at + 1] = spelled
                named[at : at + 1] = [0] * (len(spelled) - 1) + named[at : at + 1]
            if len(words) > MAX_TOKENS - 2:
                continue
            rows[i, j, : len(words) + 2] = [START, *words, END]
            nouns[i, j, 1 : len(words) + 1] = named
        empty = rows[i, :, 0] == PAD
        if not empty.all():
            rows[i, empty], nouns[i, empty] = rows[i, ~empty][0], nouns[i, ~empty][0]
    return pack(scenes), look_codes(scenes), rows, nouns


def tokenize_caption(caption: Caption, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Token numbers of a caption, and at the last token of each noun its thing's number, from 1.

    A noun in the plural names no one thing.
    """
    words: list[int] = []
    named: list[int] = []
    for piece in caption.pieces():
        tokens = tokenizer.encode(piece.text)
        words += tokens
        named += [0] * len(tokens)
        if piece.slot == "shape":
            mention = caption.mentions[piece.mention]
            if mention.count == 1 and mention.thing is not None:
                named[-1] = mention.thing + 1
    return words, named


class SceneBatch(NamedTuple):
    """Training batch of scenes with one caption each.

    Attributes:
        images: (b, h, w, 3) bytes.
        tokens: (b, l) token numbers of one caption each.
        patches: (b, p, 2) color and shape code of each patch; 0 for none.
        places: (b, l, 2) center of the thing that a noun names, right and down from 0 to 1;
            negative where a token is not the end of a noun.
    """

    images: Tensor
    tokens: Tensor
    patches: Tensor
    places: Tensor


class TrainSet:
    """Growing training set of scenes on a device."""

    def __init__(self, room: int, source: Iterator[SceneTensors]):
        """A set of at most `room` scenes that come from `source`."""
        self.room, self.ready, self._source = room, 0, source
        self._kept: SceneTensors | None = None

    @property
    def scenes(self) -> SceneTensors:
        """All scenes that are ready.

        Raises:
            InputError: there are none yet.
        """
        if self._kept is None:
            raise InputError("the training set is empty.")
        return SceneTensors(*(column[: self.ready] for column in self._kept))

    def grow(self, count: int) -> None:
        """Take scenes from the source until there are `count`, or the set is full."""
        while self.ready < min(count, self.room):
            block = next(self._source)
            if self._kept is None:
                self._kept = SceneTensors(
                    *(part.new_empty((self.room, *part.shape[1:])) for part in block)
                )
            end = min(self.ready + len(block.images), self.room)
            for column, part in zip(self._kept, block, strict=True):
                column[self.ready : end] = part[: end - self.ready]
            self.ready = end

    def batches(self, size: int, seed: int, *, mirror: bool = False) -> Iterator[SceneBatch]:
        """Random batches, for ever; the same for the same seed.

        A round goes once over all scenes that are ready when it begins.

        Args:
            size: scenes per batch.
            seed: seed of the order, of the captions, and of the mirrored scenes.
            mirror: mirror half of the scenes, with "left" and "right" exchanged in their
                captions.

        Raises:
            InputError: there are fewer scenes than a batch needs.
        """
        if size > self.ready:
            raise InputError(f"a batch of {size} needs as many scenes, not {self.ready}.")
        random = torch.Generator(device="cpu").manual_seed(seed)
        device = self.scenes.images.device
        while True:
            scenes = self.scenes
            order = torch.randperm(self.ready, generator=random).to(device)
            captions = scenes.tokens.shape[1]
            which = torch.randint(captions, (len(order),), generator=random).to(device)
            turned = (torch.rand(len(order), generator=random) < 0.5).to(device)
            for start in range(0, len(order) - size + 1, size):
                some = slice(start, start + size)
                batch = select_captions(scenes, order[some], which[some])
                yield mirror_batch(batch, turned[some]) if mirror else batch


def select_captions(scenes: SceneTensors, rows: Tensor, captions: Tensor) -> SceneBatch:
    """Batch of some scenes, each with one of its captions."""
    nouns = scenes.nouns[rows, captions].long()
    at = (nouns - 1).clamp(min=0)[:, :, None].expand(-1, -1, 2)
    places = scenes.places[rows].gather(1, at)
    return SceneBatch(
        scenes.images[rows],
        scenes.tokens[rows, captions].long(),
        scenes.patches[rows].long(),
        torch.where((nouns > 0)[:, :, None], places, -1.0),
    )


def mirror_batch(batch: SceneBatch, where: Tensor) -> SceneBatch:
    """Mirror some scenes of a batch, with "left" and "right" exchanged in their captions.

    A caption with spelled words stays as it is, and so does its scene: "left" may be one of them.
    """
    images, tokens, patches, places = batch
    spelled = (tokens >= SPECIAL) & (tokens < SPECIAL + BYTES)
    where = where & ~spelled.any(dim=1)
    side = round(patches.shape[1] ** 0.5)
    turned = patches.view(-1, side, side, 2).flip(2).flatten(1, 2)
    across = torch.stack([1 - places[..., 0], places[..., 1]], dim=-1)
    return SceneBatch(
        torch.where(where[:, None, None, None], images.flip(2), images),
        torch.where(where[:, None], _mirror_token_table(tokens.device)[tokens], tokens),
        torch.where(where[:, None, None], turned, patches),
        torch.where(where[:, None, None] & (places >= 0), across, places),
    )


def make_set(
    count: int,
    seed: int,
    device: str,
    *,
    image_size: int = 96,
    patch: int = 12,
    workers: int = 8,
    block: int = 4096,
) -> TrainSet:
    """Make a full training set; the arguments are those of `generate_scenes`."""
    # Small sets are made in small blocks: about two in three scenes are well visible.
    blocks = generate_scenes(
        seed, device, image_size=image_size, patch=patch, workers=workers,
        block=min(block, 2 * count),
    )  # fmt: skip
    with closing(blocks):
        made = TrainSet(count, blocks)
        made.grow(count)
    return made


@cache
def _mirror_token_table(device: torch.device) -> Tensor:
    """Token table that maps "left" to "right" and back, and every other token to itself."""
    tokenizer = Tokenizer(VOCABULARY)
    (left,), (right,) = tokenizer.encode("left"), tokenizer.encode("right")
    numbers = list(range(len(tokenizer)))
    numbers[left], numbers[right] = right, left
    return torch.tensor(numbers, device=device)
