"""Images so narrow that the library's own resizing would leave nothing of them."""

from __future__ import annotations

from math import ceil
from typing import Any

from PIL.Image import Image, Resampling

NARROW = (
    "An image that is too narrow for the library's resizing (about 20 times as long as wide) is "
    "stretched first; the library itself fails on it."
)


def longest_shape(processor: Any) -> float:
    """How many times as long as wide an image can be for the processors of ViLT and BridgeTower.

    They bring the shorter side to its size, the longer one to no more than 1333/800 of that, and
    both down to a multiple of a number, which may be 0.
    """
    shorter: int = dict(processor.size)["shortest_edge"]
    return int(1333 / 800 * shorter) / int(processor.size_divisor)


def widened(image: Image, processor: Any) -> Image:
    """The image itself, or a wider one when it is too narrow to be resized."""
    least = ceil(max(image.size) / longest_shape(processor))
    if min(image.size) >= least:
        return image
    width, height = (max(side, least) for side in image.size)
    return image.resize((width, height), Resampling.BICUBIC)
