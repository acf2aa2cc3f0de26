"""An image in a few patches of like colour: k-means of colour and place, from a grid.

This is SLIC (Achanta et al., 2012) with every centre compared to every pixel: there are few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contrapose.data import Example, open_images
from contrapose.diagnose.players import Masks, Missing, require_few
from contrapose.errors import InputError
from contrapose.scoring.hidden import Mask

if TYPE_CHECKING:
    from PIL.Image import Image

USUAL = 8
"""Superpixels of an image, unless another number is asked for."""
SIDE = 96
"""Pixels of the longer side on which they are found."""
ROUNDS = 10
COMPACT = 40.0
"""What a distance of one grid step weighs against differences of colour, of 0 to 255."""


@dataclass(frozen=True, slots=True)
class Superpixels:
    """Every image is cut into so many patches, and each has a game of its own.

    Attributes:
        count: how many.
    """

    count: int = USUAL
    joint: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(f"there must be at least one superpixel, not {self.count}.")
        require_few(self.count, "superpixels")

    @property
    def name(self) -> str:
        """How many."""
        return f"{self.count} superpixels"

    def find(self, examples: Sequence[Example]) -> list[Sequence[Masks] | Missing]:
        """The patches of each image, numbered from the top left."""
        return [self._one(example) for example in examples]

    def _one(self, example: Example) -> Sequence[Masks] | Missing:
        try:
            images = open_images(example.images)
        except InputError as error:
            return Missing(error.message.partition(" (")[0].rstrip("."))
        return [self._masks(image) for image in images]

    def _masks(self, image: Image) -> Masks:
        labels = superpixels(image, self.count)
        return {f"P{label + 1}": Mask.of(labels == label) for label in np.unique(labels).tolist()}


def superpixels(image: Image, count: int) -> NDArray[np.int64]:
    """(height, width) the number of each pixel's patch, from 0; none is empty."""
    scale = min(1.0, SIDE / max(image.size))
    small = image.resize(tuple(max(1, round(side * scale)) for side in image.size))  # type: ignore[arg-type]
    pixels = np.asarray(small.convert("RGB"), dtype=np.float64)
    height, width, _ = pixels.shape
    rows = max(1, round(math.sqrt(count * height / width)))
    columns = max(1, count // rows)
    step = math.sqrt(height * width / (rows * columns))
    y, x = np.mgrid[0:height, 0:width] * (COMPACT / step)
    features = np.concatenate([pixels, y[..., None], x[..., None]], axis=2).reshape(-1, 5)
    cells = (
        np.arange(height)[:, None] * rows // height * columns
        + np.arange(width)[None, :] * columns // width
    )
    _, labels = np.unique(cells.reshape(-1), return_inverse=True)
    for _ in range(ROUNDS):
        sums = np.zeros((labels.max() + 1, 5))
        np.add.at(sums, labels, features)
        centres = sums / np.bincount(labels)[:, None]
        distances = ((features[:, None] - centres) ** 2).sum(axis=2)
        _, nearest = np.unique(distances.argmin(axis=1), return_inverse=True)
        if np.array_equal(nearest, labels):
            break
        labels = nearest
    up = np.arange(image.height) * height // image.height
    across = np.arange(image.width) * width // image.width
    whole: NDArray[np.int64] = labels.reshape(height, width)[np.ix_(up, across)]
    return whole
