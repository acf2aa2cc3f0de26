"""What a model is shown in the checks: small pictures and captions, the same every time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

CAPTIONS = (
    "a blue cube",
    "a green sphere",
    "a red cone",
    "two red cubes",
)
"""Like in length and in order, so that a batch of them asks nothing of padding or sorting."""

ODD_CAPTIONS = (
    "Ein grüner Würfel",
    "红色的球",
    "a red cube 🟥",
    "a red cube\non a table\t!",
    '"red", it said; (cube) 2/3 & more',
    "x",
)
"""Other scripts, characters of four bytes, line breaks, marks, a single letter."""

WORD = "red"


def images(count: int) -> list[Image]:
    """Pictures of blocks of colour, of several shapes."""
    from PIL import Image as Images

    drawn = []
    for i in range(count):
        blocks = np.random.default_rng(i).integers(0, 256, (4, 4, 3), dtype=np.uint8)
        size = (64 + 16 * (i % 3), 64 + 24 * (i % 2))
        drawn.append(Images.fromarray(blocks).resize(size, Images.Resampling.NEAREST))
    return drawn


def odd_images() -> dict[str, Image]:
    """Pictures that preprocessing is known to stumble over."""
    from PIL import Image as Images

    return {
        "all grey": Images.new("RGB", (48, 48), (127, 127, 127)),
        "200 high and 8 wide": Images.new("RGB", (8, 200), (200, 30, 30)),
        "8 high and 200 wide": Images.new("RGB", (200, 8), (30, 200, 30)),
        "3 high and 40 wide": Images.new("RGB", (40, 3), (30, 30, 200)),
        "1 × 1": Images.new("RGB", (1, 1), (250, 10, 10)),
    }


def repeated(words: int, *tail: str) -> str:
    """A caption of so many equal words, and then some others."""
    return " ".join((*(WORD,) * words, *tail))


def words_for(tokens: int, counts: Sequence[int]) -> int:
    """How many equal words make at most so many tokens.

    Args:
        tokens: the most there may be.
        counts: tokens of a caption of one such word and of two.
    """
    one, two = counts
    return 1 + (tokens - one) // max(two - one, 1)
