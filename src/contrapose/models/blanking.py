"""Images with hidden regions: pixels that are zero in a model's own normalised space.

The region goes the way of the image: it is drawn white on black, and prepared as the model prepares
any picture, so that resizing, cropping and padding move it just as they move what is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from contrapose.errors import InputError
from contrapose.models.capabilities import Prepares

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from contrapose.models.capabilities import Prepared

SMALL = (16, 16)
"""A picture of one colour, to learn what becomes of white and black."""
HALF = 127
"""Of bytes: what is above it is nearer to white than to black."""
GREY = (0.5, 0.5, 0.5)
"""What stands for zero where a model does not say which colour that is."""


@runtime_checkable
class Normalises(Protocol):
    """A model that prepares images in bytes, and can say what they become."""

    def normalise_image(self, prepared: Prepared) -> Prepared:
        """A prepared image in the model's normalised space."""


def blanks(model: object) -> bool:
    """Whether regions of a model's prepared images can be set to zero.

    It must prepare images as pixels (…, 3, h, w), tiles included, and say how bytes are normalised
    if it leaves that for later. Images that are cut into patches already have no such pixels.
    """
    if not isinstance(model, Prepares):
        return False
    try:
        pixels = _pixels(model.prepare_image(_plain(0)))
    except InputError:
        return False
    return pixels.is_floating_point() or isinstance(model, Normalises)


def zero_colour(model: object) -> tuple[float, ...]:
    """The colour that comes nearest to zero in a model's normalised space, of values 0 to 1."""
    found: tuple[float, ...] | None = getattr(model, "pixel_mean", None)
    return GREY if found is None else found


def blanked(model: Prepares, image: Image, hidden: NDArray[np.bool_]) -> Prepared:
    """An image as the model prepares it, zero where it is hidden; any thread may call it.

    Args:
        model: one that `blanks`.
        image: the whole image.
        hidden: (height, width) true where it is hidden.
    """
    from PIL import Image

    prepared = model.prepare_image(image)
    cover = Image.fromarray(np.where(hidden, 255, 0).astype(np.uint8)).convert("RGB")
    drawn = _pixels(model.prepare_image(cover))
    over = drawn > (_middle(model) if drawn.is_floating_point() else HALF)
    if not _pixels(prepared).is_floating_point():
        if not isinstance(model, Normalises):
            raise InputError("the model's images cannot be normalised; use --baseline mean.")
        prepared = model.normalise_image(prepared)
    blank = _pixels(prepared).masked_fill(over.any(dim=-3, keepdim=True), 0.0)
    return {**prepared, "pixel_values": blank} if isinstance(prepared, Mapping) else blank


def _middle(model: Prepares) -> Tensor:
    """(3, 1, 1) what is half-way from black to white in a model's normalised pixels."""
    white = _channels(model.prepare_image(_plain(255))).amax(dim=1)
    black = _channels(model.prepare_image(_plain(0))).amin(dim=1)
    return ((white + black) / 2)[:, None, None]


def _plain(shade: int) -> Image:
    from PIL import Image

    return Image.new("RGB", SMALL, (shade, shade, shade))


def _channels(prepared: Any) -> Tensor:
    """(3, pixels) of a prepared image; where it is filled up with zeros those are among them."""
    return _pixels(prepared).float().movedim(-3, 0).flatten(1)


def _pixels(prepared: Any) -> Tensor:
    """The pixels (…, 3, h, w) of a prepared image.

    Raises:
        InputError: it has none.
    """
    found: Any = prepared.get("pixel_values") if isinstance(prepared, Mapping) else prepared
    if getattr(found, "ndim", 0) < 3 or found.shape[-3] != 3:
        raise InputError("images of this model are not pixels, so that none of them can be zero.")
    return found  # type: ignore[no-any-return]
