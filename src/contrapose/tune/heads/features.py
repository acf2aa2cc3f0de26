"""Cached features: what two frozen encoders made of images and captions, as plain arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose.errors import InputError
from contrapose.metrics.types import FloatArray, IntArray

PARTS = ("images", "texts", "image_of_text")
CHUNK = 1 << 24
"""Numbers looked at together."""


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Images and captions as an encoder a side gives them, before any head.

    Attributes:
        images: (n, p) one row an image.
        texts: (m, q) one row a caption.
        image_of_text: (m,) the row of each caption's image; every image has at least one caption.
    """

    images: FloatArray
    texts: FloatArray
    image_of_text: IntArray

    def __post_init__(self) -> None:
        """Refuses arrays that do not belong together.

        Raises:
            InputError: says which array, and what is wrong with it.
        """
        check_features(self)

    @property
    def pairs(self) -> IntArray:
        """(m, 2) rows of image and caption that belong together."""
        return np.stack([self.image_of_text, np.arange(len(self.texts))], axis=1)

    def of_images(self, rows: NDArray[np.int64]) -> Features:
        """These images alone, with their captions."""
        places = np.full(len(self.images), -1)
        places[rows] = np.arange(len(rows))
        kept = places[self.image_of_text] >= 0
        return Features(self.images[rows], self.texts[kept], places[self.image_of_text[kept]])


def read_features(folder: Path, split: str) -> Features:
    """The arrays `SPLIT_images.npy`, `SPLIT_texts.npy` and `SPLIT_image_of_text.npy` of a folder.

    Without the last, captions must be as many as images, or the same number of times as many,
    those of one image one after the other.

    Raises:
        InputError: a file is missing or no plain array, or the arrays do not belong together.
    """
    images, texts = (_array(folder / f"{split}_{part}.npy") for part in PARTS[:2])
    file = folder / f"{split}_{PARTS[2]}.npy"
    if file.is_file():
        owners = _array(file)
    else:
        each = len(texts) // max(1, len(images))
        if not each or each * len(images) != len(texts):
            raise InputError(
                f"there are {len(images)} images and {len(texts)} captions: the image of each must "
                f"stand in {file.name}.",
                file=folder,
            )
        owners = np.repeat(np.arange(len(images)), each)
    try:
        return Features(images, texts, owners)
    except InputError as error:
        raise InputError(f"{split} features: {error.message}", file=folder) from None


def has_features(folder: Path, split: str) -> bool:
    """Whether a folder holds that part."""
    return (folder / f"{split}_images.npy").is_file()


def check_features(features: Features) -> None:
    """Raise `InputError` unless the three arrays belong together and every number is finite."""
    owners = features.image_of_text
    for name, array in (("images", features.images), ("texts", features.texts)):
        if array.ndim != 2 or not array.size:
            raise InputError(f"{name} must be an array of rows × numbers, found {array.shape}.")
        if not np.issubdtype(array.dtype, np.floating):
            raise InputError(f"{name} must be floating point, found {array.dtype}.")
        for start, block in _blocks(array):
            bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
            if bad.size:
                raise InputError(f"{name}: row {start + bad[0]} has a NaN or an infinity.")
    if owners.shape != (len(features.texts),):
        raise InputError(
            f"image_of_text has shape {owners.shape} for {len(features.texts)} captions: it needs "
            "one number a caption."
        )
    if not np.issubdtype(owners.dtype, np.integer):
        raise InputError(f"image_of_text must be whole numbers, found {owners.dtype}.")
    if owners.min() < 0 or owners.max() >= len(features.images):
        raise InputError(f"image_of_text must lie in 0 … {len(features.images) - 1}, the images.")
    counts = np.bincount(owners, minlength=len(features.images))
    if not counts.all():
        raise InputError(f"image {int(counts.argmin())} has no caption.")


def _blocks(array: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    rows = max(1, CHUNK // array.shape[1])
    for start in range(0, len(array), rows):
        yield start, array[start : start + rows]


def _array(file: Path) -> NDArray[Any]:
    """An array that is no pickle, mapped and not read."""
    if not file.is_file():
        raise InputError(
            f"there is no such file; needed are {', '.join(f'SPLIT_{part}.npy' for part in PARTS)} "
            "with SPLIT train and, to measure, test.",
            file=file,
        )
    try:
        found: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"is no array of numbers ({error}).", file=file) from None
    if not found.ndim:
        raise InputError("is one number and no array.", file=file)
    return found
