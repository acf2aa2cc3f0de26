"""A job of SugarCrepe's size: rows of one image with a caption and its hard negative.

SugarCrepe has 7,511 rows over 1,560 images and 11,844 distinct captions of 11.4 words. The job has
the same proportions at any number of rows: scenes drawn at 640 × 480 as JPEG, captions by the
world's grammar, which come to 11.3 words; or SugarCrepe's own rows, with drawn images under the
photographs' names.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image

from contrapose.world.captions import CHANGES, Caption, describe
from contrapose.world.render import render
from contrapose.world.sample import sample_scenes
from contrapose.world.scene import Scene

ROWS, IMAGES, RIGHT = 7511, 1560, 4333
"""Rows, images, and right captions: with a wrong one for each row they come to 11,844."""
WIDTH, HEIGHT = 640, 480
THINGS, DETAIL = 4, 0.9
"""Of a scene and its captions, so that captions are as long as SugarCrepe's."""


@dataclass(frozen=True)
class Row:
    """An image's file name, what is true of it, and what is not."""

    image: str
    caption: str
    negative: str


@dataclass(frozen=True)
class Job:
    """The rows, and where their files are.

    Attributes:
        rows: in the order in which everybody is asked.
        images: the folder of the JPEG files.
        own: the rows as a benchmark of one's own for Contrapose.
        annotations: the same in SugarCrepe's own format.
    """

    rows: tuple[Row, ...]
    images: Path
    own: Path
    annotations: Path

    @cached_property
    def names(self) -> list[str]:
        """The distinct images."""
        return list(dict.fromkeys(row.image for row in self.rows))

    @cached_property
    def captions(self) -> list[str]:
        """The distinct captions."""
        return list(
            dict.fromkeys(text for row in self.rows for text in (row.caption, row.negative))
        )

    def __str__(self) -> str:
        words = np.mean([len(text.split()) for text in self.captions])
        size = np.mean([(self.images / name).stat().st_size for name in self.names])
        return (
            f"{len(self.rows):,} rows, {len(self.names):,} JPEG images of {WIDTH} × {HEIGHT} "
            f"({size / 1000:.0f} kB), {len(self.captions):,} distinct captions ({words:.1f} words)"
        )


def make_job(folder: Path, rows: int, annotations: Path | None = None, device: str = "cpu") -> Job:
    """The job, its images drawn where they are not there yet.

    Args:
        folder: where its files go.
        rows: how many.
        annotations: SugarCrepe's folder of JSON files; without it the grammar makes the rows.
        device: where the scenes are drawn.
    """
    count = max(1, round(rows * IMAGES / ROWS))
    if annotations is None:
        scenes = sample_scenes(count, seed=0, things=THINGS)
        wanted = _written(scenes, rows)
    else:
        wanted = _published(annotations, rows)
        scenes = sample_scenes(len({row.image for row in wanted}), seed=0, things=THINGS)
    job = Job(tuple(wanted), folder / "images", folder / "own.jsonl", folder / "sugarcrepe.json")
    job.images.mkdir(parents=True, exist_ok=True)
    _draw(job, scenes, device)
    with job.own.open("w") as file:
        for i, row in enumerate(job.rows):
            texts = [row.caption, row.negative]
            line = {"id": str(i), "images": [f"images/{row.image}"], "texts": texts, "right": 0}
            file.write(json.dumps(line) + "\n")
    each = {
        str(i): {
            "filename": row.image,
            "caption": row.caption,
            "negative_caption": row.negative,
        }
        for i, row in enumerate(job.rows)
    }
    job.annotations.write_text(json.dumps(each))
    return job


def _published(folder: Path, rows: int) -> list[Row]:
    """Rows of whole images, so that rows and images stay in proportion."""
    found = [
        Row(each["filename"], each["caption"], each["negative_caption"])
        for path in sorted(folder.glob("*_*.json"))
        for each in json.loads(path.read_text()).values()
    ]
    names = list(dict.fromkeys(row.image for row in found))
    np.random.default_rng(0).shuffle(names)
    kept: set[str] = set()
    counts = Counter(row.image for row in found)
    total = 0
    for name in names:
        if total >= rows:
            break
        kept.add(name)
        total += counts[name]
    return [row for row in found if row.image in kept]


def _written(scenes: list[Scene], rows: int) -> list[Row]:
    rng = np.random.default_rng(0)
    seen: set[str] = set()
    right: list[list[Caption]] = []
    total = round(rows * RIGHT / ROWS)
    for i, scene in enumerate(scenes):
        share = (i + 1) * total // len(scenes) - i * total // len(scenes)
        told = lambda scene=scene: describe(scene, rng, detail=DETAIL)  # noqa: E731
        right.append([_unseen(told, seen) for _ in range(max(1, share))])
    found = []
    changes = list(CHANGES.values())
    for k in range(rows):
        at, turn = k % len(scenes), k // len(scenes)
        caption = right[at][turn % len(right[at])]

        def changed(caption: Caption = caption, scene: Scene = scenes[at]) -> Caption | None:
            return changes[int(rng.integers(len(changes)))](caption, scene, rng)

        negative = _unseen(changed, seen)
        found.append(Row(f"{at:012}.jpg", caption.text, negative.text))
    return found


def _unseen(draw: Callable[[], Caption | None], seen: set[str]) -> Caption:
    """A caption that no row has yet."""
    for _ in range(10_000):
        caption = draw()
        if caption is not None and caption.text not in seen:
            seen.add(caption.text)
            return caption
    raise RuntimeError("the grammar has no more captions for this scene")


def _draw(job: Job, scenes: list[Scene], device: str) -> None:
    """Square drawings, of which the middle is kept; those that are there are not drawn again."""
    todo = [
        (job.images / name, scene)
        for name, scene in zip(job.names, scenes, strict=True)
        if not (job.images / name).exists()
    ]
    step = 8 if device == "cpu" else 64
    top = (WIDTH - HEIGHT) // 2
    for start in range(0, len(todo), step):
        some = todo[start : start + step]
        drawn = render([scene for _, scene in some], WIDTH, device, samples=1).images
        pixels = drawn[:, top : top + HEIGHT].cpu().numpy()
        for (path, _), picture in zip(some, pixels, strict=True):
            Image.fromarray(np.ascontiguousarray(picture)).save(path, quality=90)
