"""Masks of image regions: mask files, COCO run lengths, polygons, boxes, and superpixels."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from contrapose.data import ImageRef
from contrapose.data.images import open_image
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    safe_join,
)

if TYPE_CHECKING:
    from PIL.Image import Image


MaskArray = NDArray[np.bool_]
"""(height, width) pixels of a region."""
ImageSize = tuple[int, int]
"""Height and width."""


def read_region(
    value: Any, size: ImageSize, folder: Path, photograph: ImageSize | None = None
) -> MaskArray:
    """Mask of a region of an image of the given size, from any accepted form.

    Args:
        value: the name of a mask file (white is the region), `[x, y, width, height]`, polygons
            `[[x, y, x, y, …], …]`, or COCO's `{"size": [h, w], "counts": …}`; the last three also
            under the names `box`, `polygons` and `rle`, the first under `mask`.
        size: height and width of the image; polygons and boxes are in its pixels.
        folder: root of mask files.
        photograph: height and width of the photograph that the image was cropped from, which run
            lengths may have too; None where it was not cropped.

    Raises:
        InputError: it is none of these.
    """
    if isinstance(value, dict) and "counts" not in value:
        named = [value[name] for name in ("mask", "rle", "polygons", "box") if name in value]
        if len(named) != 1:
            raise InputError("a region must have one of mask, rle, polygons and box.")
        value = named[0]
    if isinstance(value, str):
        return read_mask(value, folder)
    if isinstance(value, dict) and "counts" in value:
        return decode_rle(value, (size, photograph or size))
    if isinstance(value, list) and value and all(isinstance(part, list) for part in value):
        return fill_polygons(value, size)
    if isinstance(value, list) and len(value) == 4 and all(map(_is_number, value)):
        return fill_box(value, size)
    raise InputError("a region must be a mask file, run lengths, polygons or a box.")


def read_mask(name: str, folder: Path) -> MaskArray:
    """Mask from an image file: pixels nearer to white than to black."""
    try:
        path = safe_join(folder, name)
    except MalformedError as error:
        raise InputError(str(error)) from None
    try:
        gray = open_image(ImageRef(name, path)).convert("L")
    except InputError as error:
        raise InputError(f"the mask {name}: {error.message}") from None
    return np.asarray(gray) > 127


def decode_rle(value: dict[str, Any], sizes: Sequence[ImageSize]) -> MaskArray:
    """Mask from COCO run lengths (column-major), plain or compressed.

    Args:
        value: `size` and `counts`.
        sizes: sizes that the mask may have; another is refused before it is decoded.

    Raises:
        InputError: it has another size, or is no list of run lengths.
    """
    size, counts = value.get("size"), value["counts"]
    if not (isinstance(size, list) and len(size) == 2 and all(type(n) is int for n in size)):
        raise InputError("run lengths need a size [height, width].")
    if tuple(size) not in sizes:
        raise size_error("run lengths", (size[0], size[1]), sizes[0])
    if isinstance(counts, str):
        counts = decompress_rle(counts)
    if not isinstance(counts, list) or not all(type(n) is int and n >= 0 for n in counts):
        raise InputError("run lengths must be whole numbers, or COCO's compressed text.")
    height, width = size
    if sum(counts) != height * width:
        raise InputError(
            f"the run lengths add up to {sum(counts):,}, and {height} × {width} pixels are "
            f"{height * width:,}."
        )
    flat = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return flat.reshape(width, height).T


LONGEST_RUN_BITS = 60
"""The most bits of a compressed run length."""


def decompress_rle(text: str) -> list[int]:
    """Decode COCO's compressed run lengths: 5 bits per character, differences from the third."""
    counts: list[int] = []
    number = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64:
            raise InputError(f"{character!r} does not occur in COCO's compressed run lengths.")
        number |= (bits & 31) << shift
        shift += 5
        if shift > LONGEST_RUN_BITS:
            raise InputError("the compressed run lengths hold a number that is too long.")
        if not bits & 32:
            if bits & 16:
                number -= 1 << shift
            counts.append(number + (counts[-2] if len(counts) > 2 else 0))
            number = shift = 0
    if shift:
        raise InputError("the compressed run lengths are cut off.")
    return counts


def fill_polygons(value: Sequence[Any], size: ImageSize) -> MaskArray:
    """Mask of the pixels that polygons enclose."""
    from PIL import Image, ImageDraw

    drawn = Image.new("1", (size[1], size[0]))
    draw = ImageDraw.Draw(drawn)
    for corners in value:
        if len(corners) < 6 or len(corners) % 2 or not all(map(_is_number, corners)):
            raise InputError("a polygon needs x and y of at least three corners.")
        draw.polygon([(float(x), float(y)) for x, y in zip(*[iter(corners)] * 2, strict=True)], 1)
    return np.array(drawn, dtype=np.bool_)


def fill_box(value: Sequence[float], size: ImageSize) -> MaskArray:
    """Mask of the pixels of a box, clipped to the image."""
    x, y, width, height = value
    if width <= 0 or height <= 0:
        raise InputError(f"a box must have a width and a height, found {list(value)}.")
    mask = np.zeros(size, dtype=np.bool_)
    rows = slice(max(round(y), 0), max(round(y + height), 0))
    columns = slice(max(round(x), 0), max(round(x + width), 0))
    mask[rows, columns] = True
    return mask


FARTHEST = 1e6
"""The farthest coordinate of a corner, in pixels."""


def _is_number(value: Any) -> bool:
    """Whether a value is a coordinate: a number that is not NaN and not absurdly far."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain and abs(value) <= FARTHEST


def size_error(name: str, size: ImageSize, wanted: ImageSize) -> InputError:
    """Error of a mask whose size is not the image's."""
    return InputError(
        f"the mask of {name} is {size[1]} × {size[0]}, and the image {wanted[1]} × {wanted[0]}."
    )


WORKING_SIDE = 96
"""Longer side, in pixels, of the image that is segmented."""


COMPACTNESS = 40.0
"""Weight of a distance of one grid step against differences of color from 0 to 255."""


def compute_superpixels(image: Image, count: int) -> NDArray[np.int64]:
    """(height, width) superpixel labels from 0: connected regions (SNIC), none of them empty.

    There are `count` regions, or as many as the image has pixels where these are fewer. Regions
    grow from the seeds of a grid: the pixel that is nearest to the mean color and position of the
    region beside it joins that region next.
    """
    scale = min(1.0, WORKING_SIDE / max(image.size))
    small = image.resize(tuple(max(1, round(side * scale)) for side in image.size))  # type: ignore[arg-type]
    pixels = np.asarray(small.convert("RGB"), dtype=np.float64)
    height, width, _ = pixels.shape
    seeds = _grid_seeds(height, width, min(count, height * width))
    weight = COMPACTNESS / math.sqrt(height * width / len(seeds))
    rows, columns = np.mgrid[0:height, 0:width] * weight
    features: list[list[float]] = np.dstack([pixels, rows, columns]).reshape(-1, 5).tolist()
    labels = _grow_regions(features, seeds, height, width).reshape(height, width)
    up = np.arange(image.height) * height // image.height
    across = np.arange(image.width) * width // image.width
    enlarged: NDArray[np.int64] = labels[np.ix_(up, across)]
    return enlarged


def _grid_seeds(height: int, width: int, count: int) -> list[int]:
    """Distinct pixels near the centers of `count` cells of about equal size, row by row."""
    rows = min(max(1, round(math.sqrt(count * height / width))), height, count)
    rows = max(rows, -(-count // width))
    seeds = []
    for row in range(rows):
        first, last = row * count // rows, (row + 1) * count // rows
        y = (first + last) * height // (2 * count)
        if rows == height:
            y = row
        for column in range(last - first):
            x = (2 * column + 1) * width // (2 * (last - first))
            seeds.append(y * width + x)
    return seeds


def _grow_regions(
    features: Sequence[Sequence[float]], seeds: Sequence[int], height: int, width: int
) -> NDArray[np.int64]:
    """(height · width,) region of each pixel, grown from the seeds; ties go to the older entry."""
    labels = [-1] * (height * width)
    sums = [[0.0] * 5 for _ in seeds]
    sizes = [0] * len(seeds)
    # Seeds have a distance below every other, so that each region has at least its seed.
    queue = [(-1.0, order, seed, order) for order, seed in enumerate(seeds)]
    order = len(seeds)
    while queue:
        _, _, pixel, label = heapq.heappop(queue)
        if labels[pixel] >= 0:
            continue
        labels[pixel] = label
        sizes[label] += 1
        total = sums[label] = [a + b for a, b in zip(sums[label], features[pixel], strict=True)]
        mean = [value / sizes[label] for value in total]
        y, x = divmod(pixel, width)
        for beside, inside in (
            (pixel - width, y > 0),
            (pixel - 1, x > 0),
            (pixel + 1, x < width - 1),
            (pixel + width, y < height - 1),
        ):
            if inside and labels[beside] < 0:
                heapq.heappush(queue, (math.dist(mean, features[beside]), order, beside, label))
                order += 1
    return np.array(labels, dtype=np.int64)
