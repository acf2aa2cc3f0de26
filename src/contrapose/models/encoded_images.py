"""Encoded images: tensors of images that are reused for every caption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from contrapose.models.capabilities import EncodedImage

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class EncodedImages:
    """Encoded tensors of several images: image tokens, or keys and values of every layer.

    Attributes:
        tensors: all of shape (images, …).
    """

    tensors: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.tensors[0])

    def select(self, indices: Sequence[int]) -> EncodedImages:
        """Select images by index; no copy where that is all of them in order."""
        if list(indices) == list(range(len(self))):
            return self
        if len(self) == 1:
            return EncodedImages(
                tuple(tensor.expand(len(indices), *tensor.shape[1:]) for tensor in self.tensors)
            )
        index = torch.tensor(indices, device=self.tensors[0].device)
        return EncodedImages(tuple(tensor[index] for tensor in self.tensors))

    def split(self) -> list[EncodedImage]:
        """Split into single encoded images, which share the tensors."""
        return [EncodedImage((self, i)) for i in range(len(self))]


def gather_encoded(
    images: Sequence[Any],
    encode: Callable[[Sequence[Any]], EncodedImages],
    make_reusable: Callable[[EncodedImages], EncodedImages],
) -> EncodedImages:
    """Gather the encodings of images, some of which may be encoded already.

    Args:
        images: decoded, prepared or encoded images.
        encode: encodes those that are not encoded yet.
        make_reusable: converts encodings to the form in which `encode_images` returns them.
    """
    raw = [image for image in images if not isinstance(image, EncodedImage)]
    if len(raw) == len(images):
        return encode(raw)
    new = iter(make_reusable(encode(raw)).split() if raw else ())
    states: list[tuple[EncodedImages, int]] = [
        (image if isinstance(image, EncodedImage) else next(new)).state for image in images
    ]
    first = states[0][0]
    if all(encoded is first for encoded, _ in states):
        return first.select([i for _, i in states])
    parts = [encoded.select([i]).tensors for encoded, i in states]
    return EncodedImages(tuple(torch.cat(tensors) for tensors in zip(*parts, strict=True)))


def deduplicate(images: Sequence[T]) -> tuple[list[T], list[int]]:
    """Distinct objects of a list, and the index of each item among them."""
    first: dict[int, int] = {}
    distinct: list[T] = []
    indices: list[int] = []
    for image in images:
        if id(image) not in first:
            first[id(image)] = len(distinct)
            distinct.append(image)
        indices.append(first[id(image)])
    return distinct, indices
