"""Decoded pixels: the limit of an image's size, the memory of decoding, and conversion to RGB.

A file of a few kilobytes can hold an image of gigabytes. No image over the limit is decoded, all
threads together decode no more pixels at once than the limit, and large images are converted in
strips, so that decoding needs about 8 bytes per pixel of the limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition
from typing import TYPE_CHECKING

from contrapose.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

MEGAPIXELS = 64.0
"""Largest image that is decoded, in million pixels."""

LIMIT_VARIABLE = "CONTRAPOSE_MEGAPIXELS"
"""Environment variable of another limit; Pillow refuses 179 megapixels whatever it says."""

STRIP_PIXELS = 1 << 22
"""Pixels that are converted at once."""


def pixel_limit() -> float:
    """Most pixels of an image: the default, or what the environment says.

    Raises:
        InputError: that is no positive number.
    """
    text = os.environ.get(LIMIT_VARIABLE, "").strip()
    try:
        megapixels = float(text) if text else MEGAPIXELS
    except ValueError:
        megapixels = 0.0
    if not megapixels > 0:
        raise InputError(f"{LIMIT_VARIABLE} must be a positive number, found {text!r}.")
    return megapixels * 1e6


def require_size(width: int, height: int) -> None:
    """Require that an image may be decoded.

    Raises:
        InputError: it has more pixels than the limit.
    """
    limit = pixel_limit()
    if width * height > limit:
        raise InputError(
            f"the image is too large to open ({width * height / 1e6:.4g} megapixels, and at most "
            f"{limit / 1e6:.4g} are decoded); make it smaller, or set {LIMIT_VARIABLE}."
        )


@dataclass(slots=True)
class DecodeBudget:
    """Pixels that all threads decode at the same time, at most the limit of one image.

    Attributes:
        taken: pixels that are being decoded.
    """

    taken: int = 0
    _changed: Condition = field(default_factory=Condition)

    @contextmanager
    def take(self, pixels: int) -> Iterator[None]:
        """Wait until so many pixels may be decoded; one image always may."""
        limit = pixel_limit()
        with self._changed:
            self._changed.wait_for(lambda: self.taken == 0 or self.taken + pixels <= limit)
            self.taken += pixels
        try:
            yield
        finally:
            with self._changed:
                self.taken -= pixels
                self._changed.notify_all()


BUDGET = DecodeBudget()


def decode_array(content: bytes, channels: str) -> Image:
    """Image of a `.npy` file of height × width × 3 bytes.

    Raises:
        ValueError: it holds something else.
    """
    import numpy as np
    from PIL import Image

    from contrapose.files import parse_npy

    array = parse_npy(content)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8:
        raise ValueError(f"expected height × width × 3 bytes, found {array.shape} {array.dtype}")
    require_size(array.shape[1], array.shape[0])
    return Image.fromarray(np.ascontiguousarray(array[:, :, ::-1] if channels == "bgr" else array))


def gray_to_rgb(image: Image, *, deep: bool) -> Image:
    """Convert gray values of more than 8 bits to RGB: as 16 bits, or by range."""
    import numpy as np
    from PIL import Image

    values = np.asarray(image)
    strips = [slice(top, bottom) for top, bottom in _strips(image)]
    largest = max(float(np.nan_to_num(values[rows]).max(initial=0.0)) for rows in strips)
    divisor = 257 if deep or image.mode.startswith("I;16") or largest > 255 else 1
    gray = np.empty(values.shape, dtype=np.uint8)
    for rows in strips:
        scaled = np.nan_to_num(values[rows].astype(np.float64)) / divisor
        gray[rows] = np.clip(scaled, 0, 255).round()
    return Image.fromarray(gray).convert("RGB")


def to_rgb(image: Image) -> Image:
    """Convert to RGB; transparent pixels are laid on white."""
    from PIL import Image

    if not image.mode.endswith(("A", "a")) and "transparency" not in image.info:
        return image if image.mode == "RGB" else image.convert("RGB")
    result = Image.new("RGB", image.size)
    for top, bottom in _strips(image):
        rgba = image.crop((0, top, image.width, bottom)).convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        result.paste(Image.alpha_composite(white, rgba).convert("RGB"), (0, top))
    return result


def shrink_image(image: Image, side: int | None) -> Image:
    """Make an image smaller, so that its shorter side has at most so many pixels; None keeps it."""
    from PIL.Image import Resampling

    if side is None or min(image.size) <= side:
        return image
    scale = side / min(image.size)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    return image.resize(size, Resampling.BICUBIC)


def _strips(image: Image) -> list[tuple[int, int]]:
    """First row and row behind the last of each strip of an image."""
    rows = max(1, STRIP_PIXELS // max(1, image.width))
    return [(top, min(top + rows, image.height)) for top in range(0, image.height, rows)]
