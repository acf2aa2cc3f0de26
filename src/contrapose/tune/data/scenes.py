"""Training scenes of the built-in world, with hard negatives and positives by its grammar."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from contrapose.errors import InputError
from contrapose.tune.data.rows import TrainingCaption, TrainingSet, pixel_fingerprint
from contrapose.world.captions import CHANGES, REWRITES, Caption, describe
from contrapose.world.captions.describe import TRAINING_KIND_WEIGHTS
from contrapose.world.render import PackedScenes, are_visible, pack, render_packed
from contrapose.world.sample import World, sample_scene
from contrapose.world.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Callable

    from PIL.Image import Image as Picture

MIN_VISIBLE, MIN_PIXELS = 0.45, 10
"""A thing must show this much of itself, and this many pixels at 48 px, to be in a scene."""
CAPTIONS_PER_SCENE = 4
"""Captions of each scene; one is taken each time that it is seen."""
BLOCK = 512
"""Scenes that are made and drawn together."""
SEED_OFFSET = 77_000_003
"""Added to seeds, so that no scene is one that the built-in models were trained on."""

SceneBlock = tuple[PackedScenes, list[list[TrainingCaption]]]


class RenderedImages:
    """Rendered images in memory."""

    def __init__(self, pixels: Tensor):
        self.pixels: Tensor | None = pixels

    def open(self, rows: Sequence[int]) -> list[Picture]:
        """Images of some rows."""
        assert self.pixels is not None  # noqa: S101 - they are there from the beginning
        return [Image.fromarray(self.pixels[row].cpu().numpy()) for row in rows]

    def mark(self, row: int) -> str:
        """Fingerprint of an image's pixels."""
        assert self.pixels is not None  # noqa: S101 - they are there from the beginning
        return pixel_fingerprint(self.pixels[row])


def make_scene_set(
    count: int,
    seed: int = 0,
    *,
    device: str = "cpu",
    world: World = "skewed",
    size: int = 96,
    workers: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> TrainingSet:
    """Make a training set of clearly visible scenes with captions and their changes.

    Args:
        count: how many.
        seed: of scenes and captions; the first few of a larger set are those of a smaller one.
        device: where they are drawn, and left.
        world: whose odds to use; `skewed` is what the built-in models were trained on.
        size: pixels a side.
        workers: processes that make captions; does not change what comes.
        progress: called with how many there are.

    Raises:
        InputError: none are asked for.
    """
    if count < 1:
        raise InputError(f"at least one scene is needed to learn from, not {count}.")
    images: list[Tensor] = []
    captions: list[list[TrainingCaption]] = []
    block = min(BLOCK, 2 * count)
    with closing(_make_blocks(seed + SEED_OFFSET, world, block, workers)) as blocks:
        for packed, block_captions in blocks:
            there = packed.to(device)
            fine = zip(
                are_visible(there, fraction=MIN_VISIBLE, pixels=MIN_PIXELS).tolist(),
                block_captions,
                strict=True,
            )
            keep = [i for i, (good, some) in enumerate(fine) if good and some]
            keep = keep[: count - len(captions)]
            images.append(render_packed(there, size).images[keep])
            captions += [block_captions[i] for i in keep]
            if progress is not None:
                progress("scenes", len(captions), count)
            if len(captions) >= count:
                break
    return TrainingSet(RenderedImages(torch.cat(images)), captions)


def _make_blocks(
    seed: int, world: World, block: int, workers: int
) -> Generator[SceneBlock, None, None]:
    job = partial(_describe_block, count=block, seed=seed, world=world)
    firsts = (i * block for i in range(1 << 40))
    if workers < 2:
        yield from map(job, firsts)
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        waiting = [pool.submit(job, next(firsts)) for _ in range(2 * workers)]
        try:
            while True:
                ready = waiting.pop(0).result()
                waiting.append(pool.submit(job, next(firsts)))
                yield ready
        finally:
            for future in waiting:
                future.cancel()


def _describe_block(first: int, count: int, seed: int, world: World) -> SceneBlock:
    scenes = [sample_scene(seed, first + i, world) for i in range(count)]
    return pack(scenes), [
        describe_scene(scene, np.random.default_rng((seed, first + i, 2)))
        for i, scene in enumerate(scenes)
    ]


def describe_scene(
    scene: Scene, rng: np.random.Generator, count: int = CAPTIONS_PER_SCENE
) -> list[TrainingCaption]:
    """Distinct captions of a scene with every hard negative and positive it allows."""
    names, weights = tuple(TRAINING_KIND_WEIGHTS), tuple(TRAINING_KIND_WEIGHTS.values())
    captions: dict[str, TrainingCaption] = {}
    for _ in range(count):
        kind = names[int(rng.choice(len(names), p=weights))]
        caption = describe(scene, rng, kind) or describe(scene, rng)
        if caption is not None and caption.text not in captions:
            captions[caption.text] = _annotate_caption(caption, scene, rng)
    return list(captions.values())


def _annotate_caption(caption: Caption, scene: Scene, rng: np.random.Generator) -> TrainingCaption:
    wrong, right = {}, {}
    for name, change in CHANGES.items():
        made = change(caption, scene, rng)
        if made is not None:
            wrong[made.text] = name
    for name, rewrite in REWRITES.items():
        made = rewrite(caption, rng)
        if made is not None and made.text != caption.text:
            right[made.text] = name
    return TrainingCaption(caption.text, tuple(wrong.items()), tuple(right.items()))
