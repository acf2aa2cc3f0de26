"""Make videos of rendered scenes that change, with GEBC annotations of when and how they change.

Run `python examples/boundaries.py DIR`, then
`contrapose eval tiny --on boundaries --root DIR`. Each video shows three scenes: the second differs
from the first only in where things are, and the third is another one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from contrapose.data import Benchmark, Example, open_images
from contrapose.files import StrictProblems
from contrapose.world.benchmark import scenes

LENGTHS = (9, 12, 14)
"""Frames that each scene is shown, turned from video to video."""


def write_boundaries(
    root: Path, *, videos: int = 40, lengths: Sequence[int] = LENGTHS, fps: int = 10
) -> dict[str, list[Any]]:
    """Write `videos/` and `val.json`; return the annotations."""
    annotations: dict[str, list[Any]] = {}
    for v, shown in enumerate(scenes_and_captions(videos)):
        name = f"video{v}"
        turned = [*lengths[v % len(lengths) :], *lengths[: v % len(lengths)]]
        frames = [image for (image, _), n in zip(shown, turned, strict=False) for _ in range(n)]
        encode_video(root / "videos" / f"{name}.mp4", frames, fps)
        ends = [sum(turned[:k]) / fps for k in range(len(turned) + 1)]
        annotations[name] = [
            boundary(name, k, ends[k - 1 : k + 2], shown[k - 1][1], shown[k][1])
            for k in range(1, len(turned))
        ]
    (root / "val.json").write_text(json.dumps(annotations, indent=1))
    return annotations


def scenes_and_captions(videos: int, seed: int = 0) -> list[list[tuple[Image.Image, str]]]:
    """Three scenes of each video with their captions; the second differs little from the first."""
    suite = scenes(examples=2 * videos, seed=seed).parts
    pairs, others = (_read_part(suite[name]) for name in ("location", "attribute"))
    shown = []
    for pair, other in zip(pairs[:videos], others, strict=False):
        refs, texts = (*pair.images, other.images[0]), (*pair.texts, other.texts[0])
        shown.append(list(zip(open_images(refs), texts, strict=True)))
    return shown


def boundary(video: str, number: int, times: Sequence[float], before: str, after: str) -> Any:
    """Record of a GEBC file; times of the previous boundary, this one and the next one."""
    return {
        "boundary_id": f"{video}_{number}",
        "prev_timestamp": times[0],
        "timestamp": times[1],
        "next_timestamp": times[2],
        "label": "Change of Place" if number % 2 else "Change of Scene",
        "subject": None,  # the captions name it
        "status_before": before,
        "status_after": after,
    }


def encode_video(path: Path, frames: Sequence[Image.Image], fps: int) -> None:
    """Encode frames as H.264."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=fps)
        stream.width, stream.height = frames[0].size
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "18", "preset": "ultrafast"}
        for i, image in enumerate(frames):
            frame: Any = av.VideoFrame.from_ndarray(np.asarray(image), format="rgb24")
            frame.pts, frame.time_base = i, Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def _read_part(part: Benchmark) -> list[Example]:
    data = part.read(Path(), StrictProblems())
    return list(data) if isinstance(data, Iterable) else []


if __name__ == "__main__":
    write_boundaries(Path(sys.argv[1]), lengths=[2 * length for length in LENGTHS])
