"""Encoded images are reused, and not copied without need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from contrapose.models.encoded_images import EncodedImages, deduplicate, gather_encoded


def see(images: Sequence[Any]) -> EncodedImages:
    """An image that is a tensor of one number is seen as that number and its double."""
    flat = torch.stack(list(images))
    return EncodedImages((flat, 2 * flat))


def keep(seen: EncodedImages) -> EncodedImages:
    return EncodedImages((*seen.tensors, 3 * seen.tensors[0]))


def test_unique_goes_by_identity() -> None:
    a, b = torch.zeros(1), torch.zeros(1)
    distinct, places = deduplicate([a, b, a, a, b])
    assert [id(each) for each in distinct] == [id(a), id(b)]
    assert places == [0, 1, 0, 0, 1]


def test_rows_are_not_copied_where_they_are_all() -> None:
    seen = see([torch.tensor([1.0]), torch.tensor([2.0])])
    assert seen.select([0, 1]) is seen
    assert seen.select([1, 0, 1]).tensors[1].tolist() == [[4.0], [2.0], [4.0]]
    one = see([torch.tensor([5.0])])
    wide = one.select([0, 0, 0])
    assert wide.tensors[0].tolist() == [[5.0]] * 3
    assert wide.tensors[0].data_ptr() == one.tensors[0].data_ptr()


def test_images_and_looked_ones_together() -> None:
    a, b, c = (torch.tensor([value]) for value in (1.0, 2.0, 3.0))
    assert len(gather_encoded([a, b], see, keep).tensors) == 2
    kept = keep(see([a, b]))
    looked = kept.split()
    assert gather_encoded(looked, see, keep) is kept
    mixed = gather_encoded([c, looked[1], *keep(see([a])).split()], see, keep)
    assert [each[:, 0].tolist() for each in mixed.tensors] == [[3, 2, 1], [6, 4, 2], [9, 6, 3]]
