"""Training sets: images with captions, each caption with hard negatives and hard positives."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from contrapose.arrays import Ragged
from contrapose.errors import InputError
from contrapose.files import did_you_mean

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

IndexArray = NDArray[np.int64]


class TrainingImages(Protocol):
    """Lazily opened images of a training set."""

    @property
    def pixels(self) -> Tensor | None:
        """(n, h, w, 3) bytes of all images where they are in memory, else None."""

    def open(self, rows: Sequence[int]) -> list[Image]:
        """Decode the images of some rows."""

    def mark(self, row: int) -> str:
        """Fingerprint of an image, which changes with its content."""


@dataclass(frozen=True, slots=True)
class TrainingCaption:
    """A caption of an image with its hard negatives and hard positives.

    Attributes:
        caption: a true caption.
        negatives: small changes that make it false, with the kind of change.
        positives: rewordings that stay true, with the kind of change.
    """

    caption: str
    negatives: tuple[tuple[str, str], ...] = ()
    positives: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True, eq=False)
class TrainingSet:
    """A training set: images and their captions, with a table of distinct texts.

    Attributes:
        images: the images.
        image_captions: captions of each image, at least one.
        texts: every text once.
        kinds: every kind of change once.
        tokens: of all texts, by the fingerprint of the model whose they are.
    """

    images: TrainingImages
    image_captions: Sequence[Sequence[TrainingCaption]]
    texts: list[str] = field(init=False)
    kinds: list[str] = field(init=False)
    captions: Ragged = field(init=False)
    negatives: Ragged = field(init=False)
    positives: Ragged = field(init=False)
    tokens: dict[str, dict[str, Tensor]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not self.image_captions:
            raise InputError(
                "there is nothing to learn from: the data has no image with a caption."
            )
        table: dict[str, int] = {}

        def number(text: str) -> int:
            return table.setdefault(text, len(table))

        flat = [caption for row in self.image_captions for caption in row]
        self.captions = Ragged.of([[number(s.caption) for s in row] for row in self.image_captions])
        self.negatives = Ragged.of([[number(text) for text, _ in s.negatives] for s in flat])
        self.positives = Ragged.of([[number(text) for text, _ in s.positives] for s in flat])
        self.texts = list(table)
        every = (kind for s in flat for _, kind in (*s.negatives, *s.positives))
        self.kinds = list(dict.fromkeys(every))

    def __len__(self) -> int:
        return len(self.image_captions)

    def take(self, rows: Sequence[int]) -> TrainingSet:
        """The subset of some images."""
        return TrainingSet(
            ImageSubset(self.images, rows), [self.image_captions[row] for row in rows]
        )


class ImageSubset:
    """A subset of an image source."""

    def __init__(self, images: TrainingImages, rows: Sequence[int]):
        self.images, self.rows = images, rows
        pixels = images.pixels
        self.pixels: Tensor | None = None if pixels is None else pixels[list(rows)]

    def open(self, rows: Sequence[int]) -> list[Image]:
        """Decode the images of some rows."""
        return self.images.open([self.rows[row] for row in rows])

    def mark(self, row: int) -> str:
        """Fingerprint of an image."""
        return self.images.mark(self.rows[row])


def held_out_count(count: int, share: float) -> int:
    """Number of rows to hold out: at least one, and not all."""
    return min(max(1, round(share * count)), count - 1)


def split_indices(
    count: int, held_out: int, seed: int | tuple[int, ...]
) -> tuple[IndexArray, IndexArray]:
    """Random split of rows into training rows and held-out rows, both in order."""
    order = np.random.default_rng(seed).permutation(count)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def file_fingerprint(file: Path) -> str:
    """Fingerprint of a file by path, size and modification time, as `make` uses."""
    try:
        stat = file.stat()
    except OSError:
        return str(file)
    return f"{file.resolve()} {stat.st_size} {stat.st_mtime_ns}"


def pixel_fingerprint(pixels: Tensor) -> str:
    """Fingerprint of an image in memory by its bytes."""
    content = pixels.cpu().contiguous().numpy().tobytes()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def training_set_fingerprint(rows: TrainingSet) -> str:
    """Fingerprint of all images and captions, without negatives and positives."""
    digest = hashlib.blake2b(digest_size=16)
    for row, captions in enumerate(rows.image_captions):
        parts = [rows.images.mark(row), *(it.caption for it in captions), ""]
        digest.update("\0".join(parts).encode())
    return digest.hexdigest()


PRESETS: Mapping[str, tuple[str, ...]] = {
    "swap": ("swap", "exchange", "rewrite-swap", "rewrite-exchange"),
    "replace": (
        "replace", "attribute", "object", "relation", "number", "synonym", "rewrite-synonym",
        "rewrite-contrast",
    ),
}  # fmt: skip
"""Swap-only and replace-only training (Kamath et al. 2024): the kinds, of scenes and of
`contrapose build pairs`, that exchange words of the caption, and that put others in their place."""


def filter_kinds(rows: TrainingSet, kinds: Sequence[str]) -> TrainingSet:
    """Keep the hard negatives and positives of some kinds alone.

    A name stands for the kind of that name and for those that begin with it and a hyphen:
    `swap-attribute` for itself, `order` for all word orders. `swap` and `replace` are presets of
    negatives and positives alike, whatever the data calls them. With other names, a side on which
    no kind is named keeps all.

    Raises:
        InputError: no change is of a kind that is named.
    """
    for name in kinds:
        if not any(_is_kind(kind, name) for kind in rows.kinds):
            there = {*rows.kinds, *(kind.partition("-")[0] for kind in rows.kinds)}
            there |= {it for it in PRESETS if any(_is_kind(kind, it) for kind in rows.kinds)}
            raise InputError(
                f"no caption has a change of kind {name!r}: {did_you_mean(name, there)}"
            )
    flat = [caption for row in rows.image_captions for caption in row]
    both = any(name in PRESETS for name in kinds)
    chosen = [
        both
        or any(
            _is_kind(kind, name) for caption in flat for _, kind in side(caption) for name in kinds
        )
        for side in (_negatives_of, _positives_of)
    ]

    def filter_caption(caption: TrainingCaption) -> TrainingCaption:
        sides = [
            tuple(
                (text, kind) for text, kind in made if any(_is_kind(kind, name) for name in kinds)
            )
            if some
            else made
            for made, some in zip((caption.negatives, caption.positives), chosen, strict=True)
        ]
        return TrainingCaption(caption.caption, *sides)

    return TrainingSet(
        rows.images, [[filter_caption(caption) for caption in row] for row in rows.image_captions]
    )


def _is_kind(kind: str, name: str) -> bool:
    return any(kind == it or kind.startswith(f"{it}-") for it in PRESETS.get(name, (name,)))


def _negatives_of(caption: TrainingCaption) -> tuple[tuple[str, str], ...]:
    return caption.negatives


def _positives_of(caption: TrainingCaption) -> tuple[tuple[str, str], ...]:
    return caption.positives
