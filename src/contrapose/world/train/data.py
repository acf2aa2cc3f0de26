"""The training set: scenes drawn once, kept on the device as bytes, with several captions each."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count as count_from

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.errors import InputError
from contrapose.models.tiny.model import to_range
from contrapose.models.tiny.tokeniser import END, PAD, START, Tokeniser
from contrapose.world.captions import VOCABULARY, Kind, describe
from contrapose.world.render import PackedScenes, pack, render_packed, visibility
from contrapose.world.sample import sample_scene
from contrapose.world.scene import COLORS, MOST_THINGS, SHAPES, Scene

CAPTIONS = 6
"""Captions of each scene; one is drawn each time the scene is seen."""
LENGTH = 32
"""Most tokens of a training caption, start and end included; a multiple of 8 suits attention."""
SPELLED = 0.01
"""How often a known word is spelled in bytes, so that bytes are learnt too."""
KINDS: Mapping[Kind, float] = {
    "relation": 0.62,
    "and": 0.17,
    "one": 0.06,
    "count": 0.09,
    "list": 0.06,
}
"""How often each kind of caption is tried first."""
LEAST_SHARE = 0.12
"""How much of a patch a thing must fill to be what is seen there."""
LEAST_VISIBLE, LEAST_PIXELS = 0.45, 10
"""A thing must show this much of itself, and this many pixels at 48 px, to be in a scene."""


@dataclass(frozen=True, slots=True)
class TrainSet:
    """Scenes on a device.

    Attributes:
        images: (n, h, w, 3) bytes.
        tokens: (n, c, l) token numbers of c captions each, START … END, padded.
        patches: (n, p, 2) which colour and which shape fills each patch; 0 where none does.
    """

    images: Tensor
    tokens: Tensor
    patches: Tensor

    def batches(self, size: int, seed: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Pixels, tokens and patches of random batches, for ever; the same for the same seed.

        Raises:
            InputError: there are fewer scenes than a batch needs.
        """
        if size > len(self.images):
            raise InputError(f"a batch of {size} needs as many scenes, not {len(self.images)}.")
        device = self.images.device
        random = torch.Generator(device="cpu").manual_seed(seed)
        while True:
            order = torch.randperm(len(self.images), generator=random)
            for start in range(0, len(order) - size + 1, size):
                chosen = order[start : start + size].to(device, non_blocking=True)
                which = torch.randint(self.tokens.shape[1], (size,), generator=random).to(device)
                yield (
                    to_range(self.images[chosen]),
                    self.tokens[chosen, which].long(),
                    self.patches[chosen].long(),
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
    """Sample, caption and draw scenes until `count` of them can be seen well.

    Args:
        count: how many.
        seed: of the set.
        device: where to draw and keep them.
        image_size: pixels a side.
        patch: pixels a side of what the image encoder makes one token of.
        workers: processes that make captions; with one, this process does.
        block: how many are made at a time; like `workers`, it does not change the result.
    """
    images, tokens, patches, found = [], [], [], 0
    # Small sets are made in small blocks: about two in three scenes can be seen well.
    block = min(block, 2 * count)
    with closing(_blocks(seed, block, workers)) as blocks:
        while found < count:
            scenes, rows = next(blocks)
            packed = pack(scenes).to(device)
            spoken = torch.from_numpy(rows[:, 0, 0] != PAD).to(device)
            keep = (seen_well(packed) & spoken).nonzero().squeeze(1)
            drawn = render_packed(packed, image_size)
            images.append(drawn.images[keep])
            tokens.append(torch.from_numpy(rows).to(device)[keep])
            patches.append(patch_looks(drawn.index[keep], looks(scenes).to(device)[keep], patch))
            found += len(keep)
    return TrainSet(
        torch.cat(images)[:count], torch.cat(tokens)[:count], torch.cat(patches)[:count]
    )


def looks(scenes: Sequence[Scene]) -> Tensor:
    """(n, 5, 2) number of each thing's colour and shape, from 1; 0 where there is no thing."""
    colors = list(COLORS)
    rows = torch.zeros(len(scenes), MOST_THINGS, 2, dtype=torch.int8)
    for i, scene in enumerate(scenes):
        for j, thing in enumerate(scene.things):
            rows[i, j, 0] = colors.index(thing.color) + 1
            rows[i, j, 1] = SHAPES.index(thing.shape) + 1
    return rows


def patch_looks(index: Tensor, things: Tensor, patch: int) -> Tensor:
    """(n, p, 2) colour and shape of the thing that fills most of each patch, if any fills some.

    What is seen where is the first thing the image encoder is taught, beside what is said of it.
    """
    shares = torch.stack(
        [F.avg_pool2d((index == k).half()[:, None], patch)[:, 0] for k in range(MOST_THINGS)], 1
    ).flatten(2)
    most, which = shares.max(dim=1)
    found = things.gather(1, which[:, :, None].expand(-1, -1, 2))
    return found * (most > LEAST_SHARE)[:, :, None]


def seen_well(packed: PackedScenes) -> Tensor:
    """Whether all things of each scene can be seen well enough to be spoken of."""
    fraction, pixels = visibility(packed, 48)
    fine = (fraction >= LEAST_VISIBLE) & (pixels >= LEAST_PIXELS)
    return (fine | ~packed.valid.to(fine.device)).all(dim=1)


def _blocks(
    seed: int, block: int, workers: int
) -> Generator[tuple[list[Scene], NDArray[np.int16]], None, None]:
    """`_described` block after block, for ever; in other processes where there are several."""
    job = partial(_described, count=block, seed=seed)
    if workers < 2:
        yield from map(job, count_from(0, block))
        return
    with ProcessPoolExecutor(workers) as pool:
        waiting = deque(pool.submit(job, i * block) for i in range(2 * workers))
        try:
            for i in count_from(2 * workers):
                ready = waiting.popleft().result()
                waiting.append(pool.submit(job, i * block))
                yield ready
        finally:
            for each in waiting:
                each.cancel()


def _described(first: int, count: int, seed: int) -> tuple[list[Scene], NDArray[np.int16]]:
    """Scenes and the token numbers of their captions."""
    tokeniser = Tokeniser(VOCABULARY)
    scenes = [sample_scene(seed, first + i) for i in range(count)]
    rows = np.full((count, CAPTIONS, LENGTH), PAD, dtype=np.int16)
    names, weights = tuple(KINDS), tuple(KINDS.values())
    for i, scene in enumerate(scenes):
        rng = np.random.default_rng((seed, first + i, 1))
        for j in range(CAPTIONS):
            kind = names[int(rng.choice(len(names), p=weights))]
            caption = describe(scene, rng, kind) or describe(scene, rng)
            words = [] if caption is None else tokeniser.encode(caption.text)
            if not 0 < len(words) <= LENGTH - 2:
                continue
            if rng.random() < SPELLED * len(words):
                at = int(rng.integers(len(words)))
                words[at : at + 1] = tokeniser.spell(tokeniser.decode(words[at : at + 1]))
            if len(words) > LENGTH - 2:
                continue
            row = [START, *words, END]
            rows[i, j, : len(row)] = row
        empty = rows[i, :, 0] == PAD
        if not empty.all():
            rows[i, empty] = rows[i, ~empty][0]
    return scenes, rows
