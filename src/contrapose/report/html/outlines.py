"""Pictures with their regions outlined and named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from contrapose.metrics import BoolArray
from contrapose.scoring.hidden import Mask

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 320
"""Pixels of the longer side at the least: outlines of small pictures would hide what they show."""
THICK = 3
SIZE = 18
COLOURS = (
    (217, 130, 0), (179, 86, 138), (0, 114, 178), (0, 137, 106), (204, 78, 0), (91, 103, 112),
)  # fmt: skip
"""Of outlines; the first two are those of the classes s1 and s4."""


def outlined(image: Image, masks: Mapping[str, Mask]) -> Image:
    """The picture, larger where it is small, with each region's outline and name."""
    from PIL import Image, ImageDraw, ImageFont

    scale = max(1, -(-SIDE // max(image.size)))
    shown = image.convert("RGB").resize((image.width * scale, image.height * scale))
    pixels = np.array(shown)
    places = []
    for number, (name, mask) in enumerate(masks.items()):
        colour = COLOURS[number % len(COLOURS)]
        large = np.kron(mask.array(), np.ones((scale, scale), dtype=np.bool_))
        if large.shape != pixels.shape[:2] or not large.any():
            continue
        pixels[edge(large, THICK)] = colour
        rows, columns = np.nonzero(large)
        places.append((name, colour, int(columns.min()), int(rows.min())))
    drawn = Image.fromarray(pixels)
    draw = ImageDraw.Draw(drawn)
    font = ImageFont.load_default(SIZE)
    for name, colour, x, y in places:
        box = draw.textbbox((0, 0), name, font=font)
        width, height = box[2] + 6, box[3] + 4
        left, top = min(x, drawn.width - int(width)), max(y - int(height), 0)
        draw.rectangle((left, top, left + width, top + height), fill=colour)
        draw.text((left + 3, top + 1), name, fill="white", font=font)
    return drawn


def edge(mask: BoolArray, thick: int) -> BoolArray:
    """The pixels of a region next to its outside; the picture's border is none."""
    inner = mask
    for _ in range(thick):
        padded = np.pad(inner, 1, mode="edge")
        inner = inner & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    return np.asarray(mask & ~inner)
