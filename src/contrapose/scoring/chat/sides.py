"""Two images as one, as EqBen's pilot study showed them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from contrapose.data import ImageRef, open_images
from contrapose.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST = 178_956_970
"""Pixels, as many as an image that is opened may have at the most."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Two images next to each other, without a gap; the lower one is scaled to the other's height.

    Attributes:
        left: the one image.
        right: the other.
        content: a name for what is shown, from the images' content ids.
    """

    left: ImageRef
    right: ImageRef
    content: str

    @classmethod
    def open_many(cls, sources: Sequence[Self]) -> list[Image]:
        """Make many; an image that several show is opened once."""
        refs = list(dict.fromkeys(ref for each in sources for ref in (each.left, each.right)))
        opened = dict(zip(refs, open_images(refs), strict=True))
        return [joined(opened[each.left], opened[each.right]) for each in sources]


def joined(left: Image, right: Image) -> Image:
    """Two images as one.

    Raises:
        InputError: together they are too large.
    """
    from PIL import Image

    height = max(left.height, right.height)
    widths = [max(1, round(each.width * height / each.height)) for each in (left, right)]
    if sum(widths) * height > LARGEST:
        raise InputError("the two images are too large side by side; make them smaller.")
    whole = Image.new("RGB", (sum(widths), height))
    start = 0
    for each, width in zip((left, right), widths, strict=True):
        same = each.size == (width, height)
        scaled = each if same else each.resize((width, height), Image.Resampling.BICUBIC)
        whole.paste(scaled, (start, 0))
        start += width
    return whole
