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
    """Encoded tensors of several images: tokens, or keys and values per layer.

    Attributes:
        tensors: each (images, …).
    """

    tensors: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.tensors[0])

    def rows(self, places: Sequence[int]) -> EncodedImages:
        """Select images by index; no copy where that is all of them in order."""
        if list(places) == list(range(len(self))):
            return self
        if len(self) == 1:
            return EncodedImages(
                tuple(each.expand(len(places), *each.shape[1:]) for each in self.tensors)
            )
        index = torch.tensor(places, device=self.tensors[0].device)
        return EncodedImages(tuple(each[index] for each in self.tensors))

    def looked(self) -> list[EncodedImage]:
        """Split into single encoded images, which share the tensors."""
        return [EncodedImage((self, place)) for place in range(len(self))]


def gather_encoded(
    sights: Sequence[Any],
    see: Callable[[Sequence[Any]], EncodedImages],
    keep: Callable[[EncodedImages], EncodedImages],
) -> EncodedImages:
    """Gather the encodings of images, some of which may be encoded already.

    Args:
        sights: the images.
        see: looks at images.
        keep: makes of what was seen what `look` keeps, which must be the same kind for all.
    """
    pictures = [each for each in sights if not isinstance(each, EncodedImage)]
    if len(pictures) == len(sights):
        return see(pictures)
    fresh = iter(keep(see(pictures)).looked() if pictures else ())
    states: list[tuple[EncodedImages, int]] = [
        (each if isinstance(each, EncodedImage) else next(fresh)).state for each in sights
    ]
    first = states[0][0]
    if all(seen is first for seen, _ in states):
        return first.rows([place for _, place in states])
    parts = [seen.rows([place]).tensors for seen, place in states]
    return EncodedImages(tuple(torch.cat(each) for each in zip(*parts, strict=True)))


def deduplicate(images: Sequence[T]) -> tuple[list[T], list[int]]:
    """Distinct objects of a list, and the index of each item among them."""
    first: dict[int, int] = {}
    distinct: list[T] = []
    places: list[int] = []
    for image in images:
        if id(image) not in first:
            first[id(image)] = len(distinct)
            distinct.append(image)
        places.append(first[id(image)])
    return distinct, places
