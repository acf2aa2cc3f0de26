"""Regions that the user marked: a file with a line an image, or a folder of mask files.

    {"id": "7", "image": 0, "regions": {"O1": "masks/7-man.png", "O2": [120, 40, 60, 90]}}

A region is a mask file (paths from the file's folder), COCO's run lengths or polygons, or a box.
A folder holds mask files as `ID/IMAGE/O1.png`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from contrapose.data import Example, ImageRef
from contrapose.data.images import open_image
from contrapose.diagnose.players import Masks, Missing, require_few
from contrapose.diagnose.shapes import Size, region
from contrapose.errors import InputError
from contrapose.files import Malformed, Record, Strict, jsonl_records, parse
from contrapose.metrics import BoolArray
from contrapose.scoring.hidden import Mask


@dataclass(frozen=True, slots=True)
class UserRegions:
    """Regions as the user marked them.

    Attributes:
        file: the file, or the folder of masks.
        regions: by example and image: by name what was written down, with the line.
        folder: where mask files are looked for.
    """

    file: Path
    regions: Mapping[tuple[str, int], tuple[Mapping[str, Any], int | None]] = field(repr=False)
    folder: Path = field(repr=False)
    joint: bool = True

    @property
    def name(self) -> str:
        """Which file."""
        return f"the regions of {self.file.name}"

    @classmethod
    def read(cls, file: Path) -> UserRegions:
        """Read a file, or look through a folder.

        Raises:
            InputError: a record is malformed, or has no region or too many.
        """
        if file.is_dir():
            return cls(file, _listed(file), file)
        found: dict[tuple[str, int], tuple[Mapping[str, Any], int | None]] = {}
        records = jsonl_records(file, Strict())
        for (key, marked), line in parse(
            records, lambda each: (_record(each), each.line), Strict()
        ):
            if key in found:
                raise InputError(
                    f"example {key[0]} has image {key[1]} twice.", file=file, line=line
                )
            found[key] = marked, line
        if not found:
            raise InputError("holds no regions.", file=file)
        return cls(file, found, file.parent)

    def find(self, examples: Sequence[Example]) -> list[Sequence[Masks] | Missing]:
        """The regions of each image.

        Raises:
            InputError: a mask is empty, of another size than its image, or overlaps another.
        """
        return [self._one(example) for example in examples]

    def _one(self, example: Example) -> Sequence[Masks] | Missing:
        images: list[Masks] = []
        for place, ref in enumerate(example.images):
            known = self.regions.get((example.id, place))
            if known is None:
                return Missing(f"{self.file.name} has no regions of one of its images")
            marked, line = known
            try:
                image = open_image(ref)
            except InputError as error:
                return Missing(error.message.partition(" (")[0].rstrip("."))
            try:
                images.append(self._masks(marked, ref, (image.height, image.width)))
            except InputError as error:
                message = f"example {example.id}, image {place}: {error.message}"
                raise InputError(message, file=self.file, line=line) from None
        return images

    def _masks(self, marked: Mapping[str, Any], ref: ImageRef, size: Size) -> Masks:
        found: dict[str, BoolArray] = {}
        for name, value in marked.items():
            mask = _fitted(region(value, size, self.folder), ref, size, name)
            if not mask.any():
                raise InputError(f"the region {name!r} is empty.")
            for other, taken in found.items():
                if (mask & taken).any():
                    raise InputError(
                        f"the regions {other!r} and {name!r} overlap: cut one out of the other."
                    )
            found[name] = mask
        return {name: Mask.of(mask) for name, mask in found.items()}


def _fitted(mask: BoolArray, ref: ImageRef, size: Size, name: str) -> BoolArray:
    """A mask of the image as it is shown, or of the whole photograph that it is cropped from."""
    if mask.shape == size:
        return mask
    if ref.crop is not None:
        whole = open_image(replace(ref, crop=None))
        if mask.shape == (whole.height, whole.width):
            x, y, width, height = ref.crop
            part = mask[max(y, 0) : y + height, max(x, 0) : x + width]
            if part.shape == size:
                return part
    raise InputError(
        f"the mask of {name!r} is {mask.shape[1]} × {mask.shape[0]}, and the image "
        f"{size[1]} × {size[0]}."
    )


def _record(record: Record) -> tuple[tuple[str, int], Mapping[str, Any]]:
    marked = record.field("regions")
    if not isinstance(marked, dict) or not marked:
        raise Malformed(f"record {record.key}: 'regions' must name at least one region.")
    try:
        require_few(len(marked), "regions")
    except InputError as error:
        raise Malformed(f"record {record.key}: {error.message}") from None
    return (record.name("id"), record.integer("image")), marked


def _listed(folder: Path) -> dict[tuple[str, int], tuple[Mapping[str, Any], int | None]]:
    """Mask files of a folder, `ID/IMAGE/NAME.png`."""
    found: dict[tuple[str, int], dict[str, str]] = {}
    for file in sorted(folder.glob("**/*.png")):
        parts = file.relative_to(folder).parts
        if len(parts) < 3 or not parts[-2].isdigit():
            raise InputError("a mask file must lie at ID/IMAGE/NAME.png.", file=file)
        key = "/".join(parts[:-2]), int(parts[-2])
        found.setdefault(key, {})[file.stem] = "/".join(parts)
    if not found:
        raise InputError("holds no mask files (ID/IMAGE/NAME.png).", file=folder)
    for marked in found.values():
        require_few(len(marked), "regions")
    return {key: (marked, None) for key, marked in found.items()}
