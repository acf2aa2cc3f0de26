"""Region players of images: the renderer's masks, the user's regions, or superpixels.

Superpixels are SNIC (Achanta and Süsstrunk, 2017), SLIC with regions that are connected from the
start: they grow from the seeds of a grid by distance in color and position.
"""

from __future__ import annotations

import heapq
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


def superpixel_notes(
    regions: RegionFinder | None, count: int, examples: Sequence[Example]
) -> list[str]:
    """Note on images with fewer superpixels than were asked for."""
    if regions is None:
        return []
    counts = [
        len(masks)
        for players in regions.find(examples)
        if not isinstance(players, MissingPlayers)
        for masks in players
    ]
    fewer = [made for made in counts if made < count]
    if not fewer:
        return []
    return [
        f"{len(fewer):,} of {len(counts):,} images have fewer than {count} pixels, and a "
        f"superpixel for each (the fewest are {min(fewer)})"
    ]


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
