"""Short videos of rendered scenes that change, with GEBC annotations of the changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from contrapose.data import Benchmark, Example, open_images
from contrapose.files import StrictProblems
from contrapose.world.benchmark import scenes
from tests.videos import encode_video


def scenes_and_captions(videos: int, seed: int = 0) -> list[list[tuple[Image.Image, str]]]:
    """Three scenes of each video with their captions; the second differs little from the first."""
    suite = scenes(examples=2 * videos, seed=seed).parts
    pairs, others = (_read_part(suite[name]) for name in ("location", "attribute"))
    shown = []
    for pair, other in zip(pairs[:videos], others, strict=False):
        refs, texts = (*pair.images, other.images[0]), (*pair.texts, other.texts[0])
        shown.append(list(zip(open_images(refs), texts, strict=True)))
    return shown


def _read_part(part: Benchmark) -> list[Example]:
    data = part.read(Path(), StrictProblems())
    assert isinstance(data, Iterable)
    return list(data)


def boundary(video: str, number: int, times: Sequence[float], before: str, after: str) -> Any:
    """Record of a GEBC file; times of the previous boundary, this one and the next one."""
    return {
        "boundary_id": f"{video}_{number}",
        "prev_timestamp": times[0],
        "timestamp": times[1],
        "next_timestamp": times[2],
        "label": "Change of Action" if number % 2 else "Change of Subject",
        "subject": "in this scene there is",
        "status_before": before,
        "status_after": after,
    }


def write_boundaries(
    root: Path, *, videos: int = 4, lengths: Sequence[int] = (9, 12, 14), fps: int = 10
) -> dict[str, list[Any]]:
    """Write videos of scenes, each shown for so many frames, and `val.json`; return its content."""
    annotations: dict[str, list[Any]] = {}
    for v, shown in enumerate(scenes_and_captions(videos)):
        name = f"video{v}"
        turned = [*lengths[v % len(lengths) :], *lengths[: v % len(lengths)]]
        frames = [image for (image, _), n in zip(shown, turned, strict=False) for _ in range(n)]
        encode_video(root / "videos" / f"{name}.mp4", frames, fps=fps)
        ends = [sum(turned[:k]) / fps for k in range(len(turned) + 1)]
        annotations[name] = [
            boundary(name, k, ends[k - 1 : k + 2], shown[k - 1][1], shown[k][1])
            for k in range(1, len(turned))
        ]
    (root / "val.json").write_text(json.dumps(annotations))
    return annotations
