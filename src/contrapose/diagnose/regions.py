"""Region players of images: the renderer's masks, superpixels, or the user's regions.

The user gives a JSONL file with one line per image, or a folder of mask files `ID/IMAGE/O1.png`:

    {"id": "7", "image": 0, "regions": {"O1": "masks/7-man.png", "O2": [120, 40, 60, 90]}}

A region is a mask file (paths from the file's folder), COCO run lengths or polygons, or a box.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from contrapose.data import Example, ImageRef, open_images
from contrapose.data.images import open_image
from contrapose.data.masks import ImageSize, compute_superpixels, read_region, size_error
from contrapose.diagnose.players import (
    FileKey,
    MissingPlayers,
    RegionFinder,
    RegionMasks,
    named_players,
    read_players,
    require_few_players,
)
from contrapose.diagnose.words import PlayerKind
from contrapose.engine import RegionMask
from contrapose.errors import InputError
from contrapose.files import Record, parse_count
from contrapose.metrics import BoolArray
from contrapose.world.benchmark import SceneImage, find_mentioned_things, index_maps, parse_caption

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class UserRegions:
    """Regions from a user's file or folder of masks.

    Attributes:
        file: the file, or the folder of masks.
        regions: regions by example and image, as written, with the line of the file.
        folder: root of mask files.
    """

    file: Path
    regions: Mapping[FileKey, tuple[Mapping[str, Any], int | None]] = field(repr=False)
    folder: Path = field(repr=False)
    joint: bool = True

    @property
    def name(self) -> str:
        """Description with the file's name."""
        return f"the regions of {self.file.name}"

    @classmethod
    def read(cls, file: Path) -> UserRegions:
        """Read a JSONL file of regions, or list the masks of a folder.

        Raises:
            InputError: a record is malformed, or has no region or too many.
        """
        if file.is_dir():
            return cls(file, _list_masks(file), file)
        known = read_players(file, _parse_region_record, "image", "regions")
        return cls(file, known, file.parent)

    def find(self, examples: Sequence[Example]) -> list[Sequence[RegionMasks] | MissingPlayers]:
        """Region masks of each image, checked against its size.

        Raises:
            InputError: a mask is empty, of another size than its image, or overlaps another.
        """
        return [self._one(example) for example in examples]

    def _one(self, example: Example) -> Sequence[RegionMasks] | MissingPlayers:
        images: list[RegionMasks] = []
        for index, ref in enumerate(example.images):
            known = self.regions.get((example.id, index))
            if known is None:
                return MissingPlayers(f"{self.file.name} has no regions of one of its images")
            regions, line = known
            try:
                image = open_image(ref)
            except InputError as error:
                return MissingPlayers(error.message.partition(" (")[0].rstrip("."))
            try:
                images.append(self._masks(regions, ref, (image.height, image.width)))
            except InputError as error:
                message = f"example {example.id}, image {index}: {error.message}"
                raise InputError(message, file=self.file, line=line) from None
        return images

    def _masks(self, regions: Mapping[str, Any], ref: ImageRef, size: ImageSize) -> RegionMasks:
        masks: dict[str, BoolArray] = {}
        photograph = _photograph_size(ref)
        for name, value in regions.items():
            mask = read_region(value, size, self.folder, photograph)
            mask = _fit_mask(mask, ref, size, photograph, name)
            if not mask.any():
                raise InputError(f"the region {name!r} is empty.")
            for other, taken in masks.items():
                if (mask & taken).any():
                    raise InputError(
                        f"the regions {other!r} and {name!r} overlap: cut one out of the other."
                    )
            masks[name] = mask
        return {name: RegionMask.of(mask) for name, mask in masks.items()}


def _photograph_size(ref: ImageRef) -> ImageSize | None:
    """Height and width of the photograph that an image is cropped from; None if it is not."""
    if ref.crop is None:
        return None
    photograph = open_image(replace(ref, crop=None, square=False))
    return photograph.height, photograph.width


def _fit_mask(
    mask: BoolArray, ref: ImageRef, size: ImageSize, photograph: ImageSize | None, name: str
) -> BoolArray:
    """Mask at the image's size: of the image as shown, or cropped like its photograph."""
    if mask.shape == size:
        return mask
    if ref.crop is not None and mask.shape == photograph:
        x, y, width, height = ref.crop
        part = mask[max(y, 0) : y + height, max(x, 0) : x + width]
        if part.shape == size:
            return part
    raise size_error(repr(name), (mask.shape[0], mask.shape[1]), size)


def _parse_region_record(record: Record) -> tuple[FileKey, Mapping[str, Any]]:
    regions = named_players(record, "regions", "region", "regions")
    return (record.name("id"), record.integer("image")), regions


def _list_masks(folder: Path) -> dict[FileKey, tuple[Mapping[str, Any], int | None]]:
    """Mask files of a folder by example and image, from `ID/IMAGE/NAME.png`."""
    masks: dict[tuple[str, int], dict[str, str]] = {}
    for file in sorted(folder.glob("**/*.png")):
        parts = file.relative_to(folder).parts
        number = parse_count(parts[-2]) if len(parts) >= 3 else None
        if number is None:
            raise InputError("a mask file must lie at ID/IMAGE/NAME.png.", file=file)
        key = "/".join(parts[:-2]), number
        masks.setdefault(key, {})[file.stem] = "/".join(parts)
    if not masks:
        raise InputError("holds no mask files (ID/IMAGE/NAME.png).", file=folder)
    for regions in masks.values():
        require_few_players(len(regions), "regions")
    return {key: (regions, None) for key, regions in masks.items()}


DEFAULT_SUPERPIXELS = 8
"""Default number of superpixels of an image."""


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
