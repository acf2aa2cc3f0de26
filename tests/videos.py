"""Short videos of the tests, encoded with real codecs."""

from __future__ import annotations

import struct
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
    first: int = 0,
    sound: float = 0.0,
    options: dict[str, str] | None = None,
    pixels: str = "yuv420p",
) -> Path:
    """Encode frames at the given times, or at a constant rate from a number of frames on.

    Args:
        path: the file; its ending says the container.
        frames: the images.
        fps: frames a second.
        times: seconds of the frames.
        codec: FFmpeg's name of the encoder.
        keyframes: most frames from one keyframe to the next.
        first: number of frames after which the video begins.
        sound: seconds of silence beside it.
        options: those of the encoder.
        pixels: format of the pixels.
    """
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=fps)
        stream.width, stream.height = frames[0].size
        stream.pix_fmt = pixels
        stream.codec_context.gop_size = keyframes
        clock = Fraction(1, fps if times is None else 1000)
        stream.codec_context.time_base = clock
        if codec == "libx264":
            stream.options = {"crf": "12", "preset": "ultrafast", "bf": "2"}
        stream.options = {**stream.options, **(options or {})}
        silence: Any = None
        if sound:
            encoder = {".webm": "libopus", ".mpg": "mp2"}.get(path.suffix, "aac")
            silence = container.add_stream(encoder, 48000)
        for i, image in enumerate(frames):
            frame: Any = av.VideoFrame.from_ndarray(np.asarray(image), format="rgb24")
            seconds = (first + i) / fps if times is None else times[i]
            frame.pts, frame.time_base = round(seconds / clock), clock
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        for start in range(0, round(sound * 48000), 960):
            block = np.zeros((1, 960), dtype=np.float32)
            samples: Any = av.AudioFrame.from_ndarray(block, format="fltp", layout="mono")
            samples.sample_rate, samples.pts = 48000, start
            samples.time_base = Fraction(1, 48000)
            container.mux(silence.encode(samples))
        if sound:
            container.mux(silence.encode())
    return path


def decode_plainly(path: Path) -> list[tuple[float, int]]:
    """Decode all frames in order: seconds from the first one, and number of each."""
    import av

    with av.open(str(path)) as container:
        frames: list[Any] = list(container.decode(video=0))
        first = min(frame.time for frame in frames)
        return [(frame.time - first, frame_number(frame.to_image())) for frame in frames]


def cut_edit_list(path: Path, start: float, duration: float) -> Path:
    """Make the edit list of an .mp4 file show a part of its video only."""
    content = bytearray(path.read_bytes())

    def clock(box: bytes) -> int:
        return int(struct.unpack_from(">I", content, content.index(box) + 16)[0])

    at = content.index(b"elst") + 12
    begin = struct.unpack_from(">i", content, at + 4)[0] + round(start * clock(b"mdhd"))
    struct.pack_into(">Ii", content, at, round(duration * clock(b"mvhd")), begin)
    path.write_bytes(content)
    return path


def gray_frames(count: int, size: int = SIZE) -> list[Image.Image]:
    """Frames of rising brightness, so that a frame's number can be read from it."""
    return [Image.new("RGB", (size, size), (8 + 8 * i,) * 3) for i in range(count)]


def frame_number(image: Image.Image) -> int:
    """Number of a frame of `gray_frames`."""
    return round((float(np.asarray(image.convert("L")).mean()) - 8) / 8)
