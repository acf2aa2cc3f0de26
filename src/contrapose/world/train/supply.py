"""Where training scenes come from: captioned in other processes, drawn on the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count as count_from
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.models.tiny.tokeniser import END, PAD, START, Tokeniser
from contrapose.world.captions import VOCABULARY, Caption, Kind, describe
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

Described = tuple[PackedScenes, Tensor, NDArray[np.int16], NDArray[np.int8]]
"""Scenes, their things' looks, the token numbers of their captions, and what the nouns name."""


class Drawn(NamedTuple):
    """Scenes on the device.

    Attributes:
        images: (n, h, w, 3) bytes.
        tokens: (n, c, l) token numbers of c captions each, START … END, padded.
        nouns: (n, c, l) at the last token of a noun the number of the thing it names, from 1;
            0 elsewhere.
        patches: (n, p, 2) which colour and which shape fills each patch; 0 where none does.
        places: (n, 5, 2) where the middle of each thing is seen: how far right, how far down, from
            0 to 1.
    """

    images: Tensor
    tokens: Tensor
    nouns: Tensor
    patches: Tensor
    places: Tensor


def supply(
    seed: int,
    device: str,
    *,
    image_size: int = 96,
    patch: int = 12,
    workers: int = 8,
    block: int = 4096,
) -> Generator[Drawn, None, None]:
    """Scenes that can be seen well, block after block, for ever; the same for the same seed.

    Args:
        seed: of the scenes and captions.
        device: where to draw and leave them.
        image_size: pixels a side.
        patch: pixels a side of what the image encoder makes one token of.
        workers: processes that make captions; with one, this process does.
        block: how many are made at a time; like `workers`, it does not change what comes.
    """
    for packed, things, rows, nouns in _blocks(seed, block, workers):
        there = packed.to(device)
        spoken = torch.from_numpy(rows[:, 0, 0] != PAD).to(device)
        keep = (seen_well(there) & spoken).nonzero().squeeze(1)
        drawn = render_packed(there, image_size)
        index = drawn.index[keep]
        yield Drawn(
            drawn.images[keep],
            torch.from_numpy(rows).to(device)[keep],
            torch.from_numpy(nouns).to(device)[keep],
            patch_looks(index, things.to(device)[keep], patch),
            middles(index),
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


def middles(index: Tensor) -> Tensor:
    """(n, 5, 2) the mean place of each thing's pixels, right and down from 0 to 1; 0 if none."""
    steps = (torch.arange(index.shape[1], device=index.device) + 0.5) / index.shape[1]
    found = []
    for k in range(MOST_THINGS):
        mask = (index == k).float()
        size = mask.sum(dim=(1, 2)).clamp(min=1)
        sums = [(mask.sum(axis) * steps).sum(1) for axis in (1, 2)]
        found.append(torch.stack(sums, 1) / size[:, None])
    return torch.stack(found, 1)


def seen_well(packed: PackedScenes) -> Tensor:
    """Whether all things of each scene can be seen well enough to be spoken of."""
    fraction, pixels = visibility(packed, 48)
    fine = (fraction >= LEAST_VISIBLE) & (pixels >= LEAST_PIXELS)
    return (fine | ~packed.valid.to(fine.device)).all(dim=1)


def _blocks(seed: int, block: int, workers: int) -> Generator[Described, None, None]:
    """`_described` block after block, for ever; in other processes where there are several."""
    job = partial(_described, count=block, seed=seed)
    if workers < 2:
        yield from map(job, count_from(0, block))
        return
    # Forked processes of a program with threads can hang: these begin anew.
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        waiting = deque(pool.submit(job, i * block) for i in range(2 * workers))
        try:
            for i in count_from(2 * workers):
                ready = waiting.popleft().result()
                waiting.append(pool.submit(job, i * block))
                yield ready
        finally:
            for each in waiting:
                each.cancel()


def _described(first: int, count: int, seed: int) -> Described:
    tokeniser = Tokeniser(VOCABULARY)
    scenes = [sample_scene(seed, first + i) for i in range(count)]
    rows = np.full((count, CAPTIONS, LENGTH), PAD, dtype=np.int16)
    nouns = np.zeros((count, CAPTIONS, LENGTH), dtype=np.int8)
    names, weights = tuple(KINDS), tuple(KINDS.values())
    for i, scene in enumerate(scenes):
        rng = np.random.default_rng((seed, first + i, 1))
        for j in range(CAPTIONS):
            kind = names[int(rng.choice(len(names), p=weights))]
            caption = describe(scene, rng, kind) or describe(scene, rng)
            if caption is None:
                continue
            words, named = read(caption, tokeniser)
            if rng.random() < SPELLED * len(words):
                at = int(rng.integers(len(words)))
                spelled = tokeniser.spell(tokeniser.decode(words[at : at + 1]))
                words[at : at + 1] = spelled
                named[at : at + 1] = [0] * (len(spelled) - 1) + named[at : at + 1]
            if len(words) > LENGTH - 2:
                continue
            rows[i, j, : len(words) + 2] = [START, *words, END]
            nouns[i, j, 1 : len(words) + 1] = named
        empty = rows[i, :, 0] == PAD
        if not empty.all():
            rows[i, empty], nouns[i, empty] = rows[i, ~empty][0], nouns[i, ~empty][0]
    return pack(scenes), looks(scenes), rows, nouns


def read(caption: Caption, tokeniser: Tokeniser) -> tuple[list[int], list[int]]:
    """A caption's tokens, and at the last of each noun the number of the thing it names, from 1.

    A noun in the plural names no one thing.
    """
    words: list[int] = []
    named: list[int] = []
    for piece in caption.pieces():
        tokens = tokeniser.encode(piece.text)
        words += tokens
        named += [0] * len(tokens)
        if piece.slot == "shape":
            mention = caption.mentions[piece.mention]
            if mention.count == 1 and mention.thing is not None:
                named[-1] = mention.thing + 1
    return words, named
