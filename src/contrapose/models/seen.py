"""What a network made of images, kept so that it is not made again for the next caption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from contrapose.models.capabilities import Looked

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Tensors of several images: encoded tokens, or keys and values layer after layer.

    Attributes:
        tensors: each (images, …).
    """

    tensors: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.tensors[0])

    def rows(self, places: Sequence[int]) -> Seen:
        """The images at some places; the tensors themselves where that is all of them in order."""
        if list(places) == list(range(len(self))):
            return self
        if len(self) == 1:
            return Seen(tuple(each.expand(len(places), *each.shape[1:]) for each in self.tensors))
        index = torch.tensor(places, device=self.tensors[0].device)
        return Seen(tuple(each[index] for each in self.tensors))

    def looked(self) -> list[Looked]:
        """The images one by one; they still share their tensors."""
        return [Looked((self, place)) for place in range(len(self))]


def gathered(
    sights: Sequence[Any],
    see: Callable[[Sequence[Any]], Seen],
    keep: Callable[[Seen], Seen],
) -> Seen:
    """What was seen of images, some of which may have been looked at before.

    Args:
        sights: the images.
        see: looks at images.
        keep: makes of what was seen what `look` keeps, which must be the same kind for all.
    """
    pictures = [each for each in sights if not isinstance(each, Looked)]
    if len(pictures) == len(sights):
        return see(pictures)
    fresh = iter(keep(see(pictures)).looked() if pictures else ())
    states: list[tuple[Seen, int]] = [
        (each if isinstance(each, Looked) else next(fresh)).state for each in sights
    ]
    first = states[0][0]
    if all(seen is first for seen, _ in states):
        return first.rows([place for _, place in states])
    parts = [seen.rows([place]).tensors for seen, place in states]
    return Seen(tuple(torch.cat(each) for each in zip(*parts, strict=True)))


def unique(images: Sequence[T]) -> tuple[list[T], list[int]]:
    """The distinct objects of a list, and for each place in the list which of them it is."""
    first: dict[int, int] = {}
    distinct: list[T] = []
    places: list[int] = []
    for image in images:
        if id(image) not in first:
            first[id(image)] = len(distinct)
            distinct.append(image)
        places.append(first[id(image)])
    return distinct, places
