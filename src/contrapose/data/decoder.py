"""Decoder: the program that opens, resizes and crops images for another one.

`python -m contrapose.data.decoder` reads requests (a length of four bytes, then a JSON list of
images) and writes replies: number of channels, height and width of each image, of four bytes each,
then the bytes of each. Height 0 says that it could not. It ends when its input does, so that it
never outlives the program that started it. Many are started at once while a GPU waits: it imports
neither torch nor, but for arrays and masks, numpy.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from PIL.Image import preinit

from contrapose.data.images import ImageRef, open_image
from contrapose.errors import InputError
from contrapose.resize_crop import ResizeCrop

LENGTH = struct.Struct("<I")
SHAPE = struct.Struct("<III")

NICENESS = 5
"""By how much decoders yield to the program that started them: its GPU must not wait for a core."""

Planes = tuple[tuple[int, int, int], bytes]
"""Channels, height and width of an image, and its bytes, channel by channel."""


def serve_requests(source: IO[bytes], target: IO[bytes]) -> None:
    """Answer requests until the source ends."""
    while header := source.read(LENGTH.size):
        tasks = json.loads(source.read(LENGTH.unpack(header)[0]))
        replies = [_decode(values) for values in tasks]
        target.write(b"".join(SHAPE.pack(*shape) for shape, _ in replies))
        for _, content in replies:
            target.write(content)
        target.flush()


def _decode(values: Mapping[str, Any]) -> Planes:
    """Decode, resize and crop an image to 3 channels, or 4 with masks; none where that fails."""
    try:
        size, planes = _resize(json.dumps({**values, "masks": []}))
        return _add_masks(planes, size, values) if values["masks"] else planes
    except Exception:  # the caller says what is wrong with the image
        return (3, 0, 0), b""


def _add_masks(planes: Planes, size: tuple[int, int], values: Mapping[str, Any]) -> Planes:
    """Add a channel that is 255 under the masks of an image of a size, else 0."""
    from base64 import b64decode

    import numpy as np

    hidden = np.zeros(size, dtype=np.bool_)
    for bits, *shape in values["masks"]:
        if tuple(shape) != size:
            raise InputError("a mask does not fit the image")
        packed = np.frombuffer(b64decode(bits), dtype=np.uint8)
        hidden |= np.unpackbits(packed, count=hidden.size).reshape(size).view(np.bool_)
    cover = ResizeCrop.from_json(values["steps"]).cover(hidden)
    (_, height, width), content = planes
    return (4, height, width), content + (cover * np.uint8(255)).tobytes()


@lru_cache(maxsize=2)
def _resize(content: str) -> tuple[tuple[int, int], Planes]:
    """Height and width of an image, and its bytes; one with several masks is decoded once."""
    values = json.loads(content)
    crop = values["crop"]
    ref = ImageRef(
        values["path"],
        Path(values["path"]),
        crop=None if crop is None else tuple(crop),
        channels=values["channels"],
        square=values["square"],
    )
    image = open_image(ref, content=values["content"])
    resized = ResizeCrop.from_json(values["steps"]).apply(image)
    planes = (
        (3, resized.height, resized.width),
        b"".join(band.tobytes() for band in resized.split()),
    )
    return (image.height, image.width), planes


def main() -> None:
    """Be a decoder: requests on the standard input, replies on the standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that started this one
    if hasattr(os, "nice"):  # not on every system
        os.nice(NICENESS)
    preinit()  # before the first request, which the program that started this one still plans
    with suppress(BrokenPipeError), os.fdopen(os.dup(1), "wb") as target:
        os.dup2(2, 1)  # whatever a library prints is no reply
        serve_requests(sys.stdin.buffer, target)


if __name__ == "__main__":
    main()
