"""Regions given by the user: a JSONL file with one line per image, or a folder of mask files.

    {"id": "7", "image": 0, "regions": {"O1": "masks/7-man.png", "O2": [120, 40, 60, 90]}}

A region is a mask file (paths from the file's folder), COCO run lengths or polygons, or a box.
A folder holds mask files as `ID/IMAGE/O1.png`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.data import Example, ImageRef
from contrapose.data.images import open_image
from contrapose.diagnose.players import MissingPlayers, RegionMasks, require_few_players
from contrapose.engine import RegionMask
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Record,
    StrictProblems,
    parse_records,
    read_jsonl_records,
    safe_join,
)
from contrapose.metrics import BoolArray

ImageSize = tuple[int, int]
"""Height and width."""


def read_region(
    value: Any, size: ImageSize, folder: Path, photograph: ImageSize | None = None
) -> BoolArray:
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


def read_mask(name: str, folder: Path) -> BoolArray:
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


def decode_rle(value: dict[str, Any], sizes: Sequence[ImageSize]) -> BoolArray:
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
        raise _size_error("run lengths", (size[0], size[1]), sizes[0])
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


def fill_polygons(value: Sequence[Any], size: ImageSize) -> BoolArray:
    """Mask of the pixels that polygons enclose."""
    from PIL import Image, ImageDraw

    drawn = Image.new("1", (size[1], size[0]))
    draw = ImageDraw.Draw(drawn)
    for corners in value:
        if len(corners) < 6 or len(corners) % 2 or not all(map(_is_number, corners)):
            raise InputError("a polygon needs x and y of at least three corners.")
        draw.polygon([(float(x), float(y)) for x, y in zip(*[iter(corners)] * 2, strict=True)], 1)
    return np.array(drawn, dtype=np.bool_)


def fill_box(value: Sequence[float], size: ImageSize) -> BoolArray:
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


@dataclass(frozen=True, slots=True)
class UserRegions:
    """Regions from a user's file or folder of masks.

    Attributes:
        file: the file, or the folder of masks.
        regions: regions by example and image, as written, with the line of the file.
        folder: root of mask files.
    """

    file: Path
    regions: Mapping[tuple[str, int], tuple[Mapping[str, Any], int | None]] = field(repr=False)
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
        known: dict[tuple[str, int], tuple[Mapping[str, Any], int | None]] = {}
        records = read_jsonl_records(file, StrictProblems())
        parsed = parse_records(
            records, lambda record: (_parse_region_record(record), record.line), StrictProblems()
        )
        for (key, regions), line in parsed:
            if key in known:
                raise InputError(
                    f"example {key[0]} has image {key[1]} twice.", file=file, line=line
                )
            known[key] = regions, line
        if not known:
            raise InputError("holds no regions.", file=file)
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
    photograph = open_image(replace(ref, crop=None))
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
    raise _size_error(repr(name), (mask.shape[0], mask.shape[1]), size)


def _size_error(name: str, size: ImageSize, wanted: ImageSize) -> InputError:
    return InputError(
        f"the mask of {name} is {size[1]} × {size[0]}, and the image {wanted[1]} × {wanted[0]}."
    )


def _parse_region_record(record: Record) -> tuple[tuple[str, int], Mapping[str, Any]]:
    regions = record.field("regions")
    if not isinstance(regions, dict) or not regions:
        raise MalformedError(f"record {record.key}: 'regions' must name at least one region.")
    try:
        require_few_players(len(regions), "regions")
    except InputError as error:
        raise MalformedError(f"record {record.key}: {error.message}") from None
    return (record.name("id"), record.integer("image")), regions


def _list_masks(folder: Path) -> dict[tuple[str, int], tuple[Mapping[str, Any], int | None]]:
    """Mask files of a folder by example and image, from `ID/IMAGE/NAME.png`."""
    masks: dict[tuple[str, int], dict[str, str]] = {}
    for file in sorted(folder.glob("**/*.png")):
        parts = file.relative_to(folder).parts
        if len(parts) < 3 or not parts[-2].isdigit():
            raise InputError("a mask file must lie at ID/IMAGE/NAME.png.", file=file)
        key = "/".join(parts[:-2]), int(parts[-2])
        masks.setdefault(key, {})[file.stem] = "/".join(parts)
    if not masks:
        raise InputError("holds no mask files (ID/IMAGE/NAME.png).", file=folder)
    for regions in masks.values():
        require_few_players(len(regions), "regions")
    return {key: (regions, None) for key, regions in masks.items()}
