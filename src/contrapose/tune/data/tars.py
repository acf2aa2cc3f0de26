"""Training pairs from webdataset tar files, read in place."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contrapose.errors import InputError
from contrapose.files import IMAGE_SUFFIXES
from contrapose.tune.data.rows import TrainingCaption, TrainingSet, file_fingerprint

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

MAX_CAPTION_BYTES = 1 << 20
"""Bytes of a caption file that are read."""


@dataclass(frozen=True, slots=True)
class _TarMember:
    """Position of an image's bytes in a tar file."""

    tar: Path
    start: int
    size: int
    name: str


class TarImages:
    """Images read from tar files in place."""

    pixels: Tensor | None = None

    def __init__(self, places: Sequence[_TarMember]):
        self.places = places

    def open(self, rows: Sequence[int]) -> list[Image]:
        """Decode the images of some rows.

        Raises:
            InputError: one cannot be decoded.
        """
        return [_open_image(self.places[row]) for row in rows]

    def mark(self, row: int) -> str:
        """Fingerprint of an image, which changes with its tar file."""
        place = self.places[row]
        return f"{file_fingerprint(place.tar)} {place.start} {place.size}"


def is_tar(path: Path) -> bool:
    """Whether a path is a tar file, or a folder that holds some."""
    return (path.suffix == ".tar" and path.is_file()) or (path.is_dir() and any(path.glob("*.tar")))


def read_tars(path: Path) -> TrainingSet:
    """Read a training set from tar files without unpacking them.

    A caption is a `.txt`, or a `.json` with `caption` and perhaps `negatives` and `positives`.

    Raises:
        InputError: a file is damaged, a caption has no image, or there is nothing to learn from.
    """
    places: list[_TarMember] = []
    sayings: list[list[TrainingCaption]] = []
    for tar in [path] if path.is_file() else sorted(path.glob("*.tar")):
        images: dict[str, _TarMember] = {}
        said: dict[str, TrainingCaption] = {}
        try:
            with tarfile.open(tar, "r:") as stream:
                for member in stream:
                    key, ending = _split_name(member.name)
                    if not member.isfile():
                        continue
                    if ending in IMAGE_SUFFIXES:
                        images[key] = _TarMember(tar, member.offset_data, member.size, member.name)
                    elif ending in (".txt", ".json"):
                        content = stream.extractfile(member)
                        text = b"" if content is None else content.read(MAX_CAPTION_BYTES)
                        saying = _parse_caption(text.decode("utf-8", "replace"), ending)
                        if saying is not None:
                            said[key] = saying
        except (tarfile.TarError, OSError) as error:
            raise InputError(f"is not a whole tar file ({error}).", file=tar) from None
        for key, saying in said.items():
            if key not in images:
                raise InputError(f"the caption {key!r} has no image beside it.", file=tar)
            places.append(images[key])
            sayings.append([saying])
    if not places:
        raise InputError("holds nothing to learn from: no image with a caption.", file=path)
    return TrainingSet(TarImages(places), sayings)


def _split_name(name: str) -> tuple[str, str]:
    """Split a member name at the first dot of the file name, as webdataset does."""
    folder, _, file = name.rpartition("/")
    stem, dot, ending = file.partition(".")
    return f"{folder}/{stem}", f"{dot}{ending.lower()}"


def _parse_caption(text: str, ending: str) -> TrainingCaption | None:
    if ending == ".txt":
        return TrainingCaption(" ".join(text.split())) if text.strip() else None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("caption"), str):
        return None
    sides = {
        side: tuple((each, "change") for each in value.get(side) or () if isinstance(each, str))
        for side in ("negatives", "positives")
    }
    return TrainingCaption(value["caption"], **sides)


def _open_image(place: _TarMember) -> Image:
    from PIL import Image

    try:
        with place.tar.open("rb") as stream:
            stream.seek(place.start)
            content = stream.read(place.size)
        with Image.open(io.BytesIO(content)) as image:
            return image.convert("RGB")
    except (OSError, ValueError) as error:
        raise InputError(
            f"the image {place.name} cannot be decoded ({error}).", file=place.tar
        ) from None
