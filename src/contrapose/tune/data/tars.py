"""Pairs from webdataset's tar files: an image and its caption have one name and two endings."""

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
from contrapose.tune.data.marks import file_mark
from contrapose.tune.data.rows import Rows, Saying

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

MOST = 1 << 20
"""Bytes of a caption file that are read."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an image's bytes lie."""

    tar: Path
    start: int
    size: int
    name: str


class TarImages:
    """Images that are read out of tars where they lie."""

    pixels: Tensor | None = None

    def __init__(self, places: Sequence[_Place]):
        self.places = places

    def open(self, rows: Sequence[int]) -> list[Image]:
        """Some of them, decoded.

        Raises:
            InputError: one cannot be decoded.
        """
        return [_opened(self.places[row]) for row in rows]

    def mark(self, row: int) -> str:
        """What tells an image from another, and from itself when its tar was changed."""
        place = self.places[row]
        return f"{file_mark(place.tar)} {place.start} {place.size}"


def is_tar(path: Path) -> bool:
    """Whether this is a tar file, or a folder that holds some."""
    return (path.suffix == ".tar" and path.is_file()) or (path.is_dir() and any(path.glob("*.tar")))


def tar_rows(path: Path) -> Rows:
    """What tars hold to learn from, without unpacking them.

    A caption is a `.txt`, or a `.json` with `caption` and perhaps `negatives` and `positives`.

    Raises:
        InputError: a file is damaged, a caption has no image, or there is nothing to learn from.
    """
    places: list[_Place] = []
    sayings: list[list[Saying]] = []
    for tar in [path] if path.is_file() else sorted(path.glob("*.tar")):
        images: dict[str, _Place] = {}
        said: dict[str, Saying] = {}
        try:
            with tarfile.open(tar, "r:") as stream:
                for member in stream:
                    key, ending = _split(member.name)
                    if not member.isfile():
                        continue
                    if ending in IMAGE_SUFFIXES:
                        images[key] = _Place(tar, member.offset_data, member.size, member.name)
                    elif ending in (".txt", ".json"):
                        content = stream.extractfile(member)
                        text = b"" if content is None else content.read(MOST)
                        saying = _saying(text.decode("utf-8", "replace"), ending)
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
    return Rows(TarImages(places), sayings)


def _split(name: str) -> tuple[str, str]:
    """As webdataset: the ending begins at the first dot of the file name."""
    folder, _, file = name.rpartition("/")
    stem, dot, ending = file.partition(".")
    return f"{folder}/{stem}", f"{dot}{ending.lower()}"


def _saying(text: str, ending: str) -> Saying | None:
    if ending == ".txt":
        return Saying(" ".join(text.split())) if text.strip() else None
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
    return Saying(value["caption"], **sides)


def _opened(place: _Place) -> Image:
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
