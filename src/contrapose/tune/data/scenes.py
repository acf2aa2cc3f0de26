"""Scenes of the built-in world to learn from, with false and true changes by its own grammar."""

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
from contrapose.tune.data.marks import pixels_mark
from contrapose.tune.data.rows import Rows, Saying
from contrapose.world.captions import CHANGES, REWRITES, Caption, describe
from contrapose.world.odds import World
from contrapose.world.render import PackedScenes, pack, render_packed
from contrapose.world.sample import sample_scene
from contrapose.world.scene import Scene
from contrapose.world.train.supply import KINDS, seen_well

if TYPE_CHECKING:
    from collections.abc import Callable

    from PIL.Image import Image as Picture

SAYINGS = 4
"""Captions of each scene; one is taken each time that it is seen."""
BLOCK = 512
"""Scenes that are made and drawn together."""
FAR = 77_000_003
"""Added to seeds, so that no scene is one that the built-in models were trained on."""

Said = tuple[PackedScenes, list[list[Saying]]]


class Drawn:
    """Pictures that were drawn already."""

    def __init__(self, pixels: Tensor):
        self.pixels: Tensor | None = pixels

    def open(self, rows: Sequence[int]) -> list[Picture]:
        """Some of them."""
        assert self.pixels is not None  # noqa: S101 - they are there from the beginning
        return [Image.fromarray(self.pixels[row].cpu().numpy()) for row in rows]

    def mark(self, row: int) -> str:
        """A name for its pixels."""
        assert self.pixels is not None  # noqa: S101 - they are there from the beginning
        return pixels_mark(self.pixels[row])


def scene_rows(
    count: int,
    seed: int = 0,
    *,
    device: str = "cpu",
    world: World = "skewed",
    size: int = 96,
    workers: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> Rows:
    """Scenes that can be seen well, each with a few captions and changes of them.

    Args:
        count: how many.
        seed: of scenes and captions; the first few of a larger set are those of a smaller one.
        device: where they are drawn, and left.
        world: whose odds to use; `skewed` is what the built-in models were trained on.
        size: pixels a side.
        workers: processes that make captions; does not change what comes.
        progress: told how many are there.

    Raises:
        InputError: none are asked for.
    """
    if count < 1:
        raise InputError(f"at least one scene is needed to learn from, not {count}.")
    pictures: list[Tensor] = []
    sayings: list[list[Saying]] = []
    block = min(BLOCK, 2 * count)
    with closing(_blocks(seed + FAR, world, block, workers)) as blocks:
        for packed, said in blocks:
            there = packed.to(device)
            fine = zip(seen_well(there).tolist(), said, strict=True)
            keep = [i for i, (good, some) in enumerate(fine) if good and some]
            keep = keep[: count - len(sayings)]
            pictures.append(render_packed(there, size).images[keep])
            sayings += [said[i] for i in keep]
            if progress is not None:
                progress("scenes", len(sayings), count)
            if len(sayings) >= count:
                break
    return Rows(Drawn(torch.cat(pictures)), sayings)


def _blocks(seed: int, world: World, block: int, workers: int) -> Generator[Said, None, None]:
    job = partial(_described, count=block, seed=seed, world=world)
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
            for each in waiting:
                each.cancel()


def _described(first: int, count: int, seed: int, world: World) -> Said:
    scenes = [sample_scene(seed, first + i, world) for i in range(count)]
    return pack(scenes), [
        sayings(scene, np.random.default_rng((seed, first + i, 2)))
        for i, scene in enumerate(scenes)
    ]


def sayings(scene: Scene, rng: np.random.Generator, count: int = SAYINGS) -> list[Saying]:
    """Different captions of a scene; every change and rewriting that it allows, in random order."""
    names, weights = tuple(KINDS), tuple(KINDS.values())
    found: dict[str, Saying] = {}
    for _ in range(count):
        kind = names[int(rng.choice(len(names), p=weights))]
        caption = describe(scene, rng, kind) or describe(scene, rng)
        if caption is not None and caption.text not in found:
            found[caption.text] = _saying(caption, scene, rng)
    return list(found.values())


def _saying(caption: Caption, scene: Scene, rng: np.random.Generator) -> Saying:
    wrong, right = {}, {}
    for name, change in CHANGES.items():
        made = change(caption, scene, rng)
        if made is not None:
            wrong[made.text] = name
    for name, rewrite in REWRITES.items():
        made = rewrite(caption, rng)
        if made is not None and made.text != caption.text:
            right[made.text] = name
    return Saying(caption.text, tuple(wrong.items()), tuple(right.items()))
