"""Short videos of the tests, encoded with real codecs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIZE = 64


def encode_video(
    path: Path,
    frames: Sequence[Image.Image],
    *,
    fps: int = 10,
    times: Sequence[float] | None = None,
    codec: str = "libx264",
    keyframes: int = 5,
) -> Path:
    """Encode frames at a constant rate, or at the given times."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=fps)
        stream.width, stream.height = frames[0].size
        stream.pix_fmt = "yuv420p"
        stream.codec_context.gop_size = keyframes
        clock = Fraction(1, fps if times is None else 1000)
        stream.codec_context.time_base = clock
        if codec == "libx264":
            stream.options = {"crf": "12", "preset": "ultrafast", "bf": "2"}
        for i, image in enumerate(frames):
            frame: Any = av.VideoFrame.from_ndarray(np.asarray(image), format="rgb24")
            seconds = i / fps if times is None else times[i]
            frame.pts, frame.time_base = round(seconds / clock), clock
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def gray_frames(count: int, size: int = SIZE) -> list[Image.Image]:
    """Frames of rising brightness, so that a frame's number can be read from it."""
    return [Image.new("RGB", (size, size), (8 + 8 * i,) * 3) for i in range(count)]


def frame_number(image: Image.Image) -> int:
    """Number of a frame of `gray_frames`."""
    return round((float(np.asarray(image.convert("L")).mean()) - 8) / 8)
