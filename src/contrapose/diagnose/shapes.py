"""Regions as people write them down: mask files, COCO's run lengths and polygons, boxes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.data import ImageRef
from contrapose.data.images import open_image
from contrapose.errors import InputError
from contrapose.files import Malformed, inside
from contrapose.metrics import BoolArray

Size = tuple[int, int]
"""Height and width."""


def region(value: Any, size: Size, folder: Path) -> BoolArray:
    """A region of an image of a size, from any of the forms it may have.

    Args:
        value: the name of a mask file (white is the region), `[x, y, width, height]`, polygons
            `[[x, y, x, y, …], …]`, or COCO's `{"size": [h, w], "counts": …}`; the last three also
            under the names `box`, `polygons` and `rle`, the first under `mask`.
        size: of the image; polygons and boxes are in its pixels.
        folder: where mask files are looked for.

    Raises:
        InputError: it is none of these.
    """
    if isinstance(value, dict) and "counts" not in value:
        named = [value[name] for name in ("mask", "rle", "polygons", "box") if name in value]
        if len(named) != 1:
            raise InputError("a region must have one of mask, rle, polygons and box.")
        return region(named[0], size, folder)
    if isinstance(value, str):
        return mask_file(value, folder)
    if isinstance(value, dict):
        return run_lengths(value)
    if isinstance(value, list) and value and all(isinstance(each, list) for each in value):
        return polygons(value, size)
    if isinstance(value, list) and len(value) == 4 and all(map(_is_number, value)):
        return box(value, size)
    raise InputError("a region must be a mask file, run lengths, polygons or a box.")


def mask_file(name: str, folder: Path) -> BoolArray:
    """The mask in an image file: the pixels that are nearer to white than to black."""
    try:
        path = inside(folder, name)
    except Malformed as error:
        raise InputError(str(error)) from None
    try:
        grey = open_image(ImageRef(name, path)).convert("L")
    except InputError as error:
        raise InputError(f"the mask {name}: {error.message}") from None
    return np.asarray(grey) > 127


def run_lengths(value: dict[str, Any]) -> BoolArray:
    """COCO's run lengths, column by column: as numbers, or in their compressed form."""
    size, counts = value.get("size"), value["counts"]
    if not (isinstance(size, list) and len(size) == 2 and all(type(n) is int for n in size)):
        raise InputError("run lengths need a size [height, width].")
    if isinstance(counts, str):
        counts = decompressed(counts)
    if not isinstance(counts, list) or not all(type(n) is int and n >= 0 for n in counts):
        raise InputError("run lengths must be whole numbers, or COCO's compressed text.")
    height, width = size
    if min(size) < 1 or sum(counts) != height * width:
        raise InputError(
            f"the run lengths add up to {sum(counts):,}, and {height} × {width} pixels are "
            f"{height * width:,}."
        )
    flat = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return flat.reshape(width, height).T


def decompressed(text: str) -> list[int]:
    """COCO's compressed run lengths: five bits a character, from the third on as differences."""
    counts: list[int] = []
    number = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64:
            raise InputError(f"{character!r} does not occur in COCO's compressed run lengths.")
        number |= (bits & 31) << shift
        shift += 5
        if not bits & 32:
            if bits & 16:
                number -= 1 << shift
            counts.append(number + (counts[-2] if len(counts) > 2 else 0))
            number = shift = 0
    if shift:
        raise InputError("the compressed run lengths are cut off.")
    return counts


def polygons(value: Sequence[Any], size: Size) -> BoolArray:
    """What polygons enclose."""
    from PIL import Image, ImageDraw

    drawn = Image.new("1", (size[1], size[0]))
    draw = ImageDraw.Draw(drawn)
    for corners in value:
        if len(corners) < 6 or len(corners) % 2 or not all(map(_is_number, corners)):
            raise InputError("a polygon needs x and y of at least three corners.")
        draw.polygon([(float(x), float(y)) for x, y in zip(*[iter(corners)] * 2, strict=True)], 1)
    return np.array(drawn, dtype=np.bool_)


def box(value: Sequence[float], size: Size) -> BoolArray:
    """The pixels of a box, as far as it lies in the image."""
    x, y, width, height = value
    if width <= 0 or height <= 0:
        raise InputError(f"a box must have a width and a height, found {list(value)}.")
    mask = np.zeros(size, dtype=np.bool_)
    rows = slice(max(round(y), 0), max(round(y + height), 0))
    columns = slice(max(round(x), 0), max(round(x + width), 0))
    mask[rows, columns] = True
    return mask


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
