"""Region players of images: the renderer's masks, the user's regions, or superpixels.

Superpixels are SLIC (Achanta et al., 2012): k-means of color and position from a grid, with every
center compared to every pixel, since there are few.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from contrapose.data import Example, ImageRef, open_images
from contrapose.diagnose.players import (
    MissingPlayers,
    RegionFinder,
    RegionMasks,
    require_few_players,
)
from contrapose.diagnose.user_regions import UserRegions
from contrapose.diagnose.words import PlayerKind
from contrapose.engine import RegionMask
from contrapose.errors import InputError
from contrapose.world.benchmark import SceneImage, find_mentioned_things, index_maps, parse_caption

if TYPE_CHECKING:
    from PIL.Image import Image

DEFAULT_SUPERPIXELS = 8
"""Default number of superpixels of an image."""
WORKING_SIDE = 96
"""Longer side, in pixels, of the image that is segmented."""
ITERATIONS = 10
COMPACTNESS = 40.0
"""Weight of a distance of one grid step against differences of color from 0 to 255."""


@dataclass(frozen=True, slots=True)
class Superpixels:
    """Superpixel players: each image is cut into a number of patches and has its own game.

    Attributes:
        count: number of superpixels per image.
    """

    count: int = DEFAULT_SUPERPIXELS
    joint: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(f"there must be at least one superpixel, not {self.count}.")
        require_few_players(self.count, "superpixels")

    @property
    def name(self) -> str:
        """Description with the number of superpixels."""
        return f"{self.count} superpixels"

    def find(self, examples: Sequence[Example]) -> list[Sequence[RegionMasks] | MissingPlayers]:
        """Patch masks of each image, numbered from the top left."""
        return [self._one(example) for example in examples]

    def _one(self, example: Example) -> Sequence[RegionMasks] | MissingPlayers:
        try:
            images = open_images(example.images)
        except InputError as error:
            return MissingPlayers(error.message.partition(" (")[0].rstrip("."))
        return [self._masks(image) for image in images]

    def _masks(self, image: Image) -> RegionMasks:
        labels = compute_superpixels(image, self.count)
        return {
            f"P{label + 1}": RegionMask.of(labels == label) for label in np.unique(labels).tolist()
        }


def compute_superpixels(image: Image, count: int) -> NDArray[np.int64]:
    """(height, width) superpixel labels from 0; no label is empty."""
    scale = min(1.0, WORKING_SIDE / max(image.size))
    small = image.resize(tuple(max(1, round(side * scale)) for side in image.size))  # type: ignore[arg-type]
    pixels = np.asarray(small.convert("RGB"), dtype=np.float64)
    height, width, _ = pixels.shape
    rows = max(1, round(math.sqrt(count * height / width)))
    columns = max(1, count // rows)
    step = math.sqrt(height * width / (rows * columns))
    y, x = np.mgrid[0:height, 0:width] * (COMPACTNESS / step)
    features = np.concatenate([pixels, y[..., None], x[..., None]], axis=2).reshape(-1, 5)
    cells = (
        np.arange(height)[:, None] * rows // height * columns
        + np.arange(width)[None, :] * columns // width
    )
    _, labels = np.unique(cells.reshape(-1), return_inverse=True)
    for _ in range(ITERATIONS):
        sums = np.zeros((labels.max() + 1, 5))
        np.add.at(sums, labels, features)
        centers = sums / np.bincount(labels)[:, None]
        distances = ((features[:, None] - centers) ** 2).sum(axis=2)
        _, nearest = np.unique(distances.argmin(axis=1), return_inverse=True)
        if np.array_equal(nearest, labels):
            break
        labels = nearest
    up = np.arange(image.height) * height // image.height
    across = np.arange(image.width) * width // image.width
    enlarged: NDArray[np.int64] = labels.reshape(height, width)[np.ix_(up, across)]
    return enlarged


IndexMap = NDArray[np.int8]
OBJECT_PLAYERS = ("O1", "O2")
"""The two things that a caption mentions."""
SCENE_BATCH = 128
"""Scenes whose masks are rendered in one batch."""


@dataclass(frozen=True, slots=True)
class SceneRegions:
    """Regions of the two objects that the captions of `scenes` mention, from the renderer."""

    name: str = "the renderer's masks (scenes)"
    joint: bool = True

    def find(self, examples: Sequence[Example]) -> list[Sequence[RegionMasks] | MissingPlayers]:
        """Masks of O1 and O2 in each image."""
        players: list[Sequence[RegionMasks] | MissingPlayers] = []
        for start in range(0, len(examples), SCENE_BATCH):
            batch = examples[start : start + SCENE_BATCH]
            objects = [_find_objects(example) for example in batch]
            maps = _draw_index_maps(
                [
                    ref
                    for example, pairs in zip(batch, objects, strict=True)
                    if not isinstance(pairs, MissingPlayers)
                    for ref in example.images
                ]
            )
            players += [
                pairs if isinstance(pairs, MissingPlayers) else _object_masks(example, pairs, maps)
                for example, pairs in zip(batch, objects, strict=True)
            ]
        return players


def _draw_index_maps(refs: Sequence[ImageRef]) -> dict[ImageRef, IndexMap]:
    """Index map of each scene image: the position of the object in each pixel."""
    sources = {ref: ref.source for ref in refs if isinstance(ref.source, SceneImage)}
    by_ref: dict[ImageRef, IndexMap] = {}
    for size in dict.fromkeys(source.size for source in sources.values()):
        alike = [ref for ref, source in sources.items() if source.size == size]
        maps = index_maps([sources[ref].scene for ref in alike], size)
        by_ref.update(zip(alike, maps, strict=True))
    return by_ref


ObjectPair = tuple[tuple[int, ...], tuple[int, ...]]
"""Indices of the things that the first and the second mention of a caption fit."""


def _find_objects(example: Example) -> list[ObjectPair] | MissingPlayers:
    """Objects that O1 and O2 refer to, for each image.

    They are those of the first image's caption where it fits, so that O1 is the same thing in all
    images; else those of the image's caption.
    """
    if not all(isinstance(ref.source, SceneImage) for ref in example.images):
        return MissingPlayers("its images are not drawn from scenes")
    right = [next((j for j, ok in enumerate(row) if ok), None) for row in example.match]
    pairs: list[ObjectPair] = []
    for image, caption in enumerate(right):
        pair = _find_object_pair(example, right[0], image)
        if isinstance(pair, MissingPlayers):
            pair = _find_object_pair(example, caption, image)
        if isinstance(pair, MissingPlayers):
            return pair
        pairs.append(pair)
    return pairs


def _find_object_pair(
    example: Example, text: int | None, image: int
) -> ObjectPair | MissingPlayers:
    """Objects of an image that a caption's two phrases refer to."""
    caption = None if text is None else parse_caption(example.texts[text])
    if caption is None or text is None:
        return MissingPlayers("an image has no caption that is a sentence of scenes")
    if len(caption.mentions) != len(OBJECT_PLAYERS):
        return MissingPlayers("its caption does not speak of two things")
    first, second = find_mentioned_things(example, text, image)
    if not first or not second:
        return MissingPlayers("what its caption speaks of is not in the image")
    if set(first) & set(second):
        return MissingPlayers("both phrases of its caption can mean one thing")
    return first, second


def _object_masks(
    example: Example, pairs: Sequence[ObjectPair], maps: Mapping[ImageRef, IndexMap]
) -> Sequence[RegionMasks] | MissingPlayers:
    images: list[RegionMasks] = []
    for ref, pair in zip(example.images, pairs, strict=True):
        masks = [np.isin(maps[ref], things) for things in pair]
        if not all(mask.any() for mask in masks):
            return MissingPlayers("nothing is seen of a thing that its caption speaks of")
        images.append(dict(zip(OBJECT_PLAYERS, map(RegionMask.of, masks), strict=True)))
    return images


def choose_regions(
    examples: Sequence[Example],
    players: PlayerKind = "groups",
    *,
    file: Path | None = None,
    count: int = DEFAULT_SUPERPIXELS,
) -> RegionFinder | None:
    """Choose the source of regions from the user's options; None where there is none.

    Args:
        examples: the examples to diagnose.
        players: `superpixels` cuts every image into patches.
        file: a file of the user's regions, or a folder of masks.
        count: number of superpixels.

    Raises:
        InputError: the file cannot be used, or there are too many superpixels.
    """
    if players == "superpixels":
        return Superpixels(count)
    if file is not None:
        return UserRegions.read(file)
    rendered = any(
        isinstance(ref.source, SceneImage) for example in examples for ref in example.images
    )
    return SceneRegions() if rendered else None
