"""Images with masked regions: pixels set to zero in a model's normalized space.

The region is drawn white on black and prepared like any image, so that resizing, cropping and
padding move it exactly as they move the pixels under it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from contrapose.errors import InputError, option
from contrapose.models.capabilities import CropPreparer, ImagePreparer
from contrapose.resize_crop import MID_BYTE

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from contrapose.models.capabilities import PreparedImage

PROBE_SIZE = (16, 16)
"""Size of a one-color image, by which the values of white and black are found."""
GRAY = (0.5, 0.5, 0.5)
"""The color for zero where a model does not state one."""


@runtime_checkable
class ImageNormalizer(Protocol):
    """A model that prepares images as bytes and normalizes them in a second step."""

    def normalize_image(self, prepared: PreparedImage) -> PreparedImage:
        """Normalize a prepared image."""


def can_mask_pixels(model: object) -> bool:
    """Whether pixels of the model's prepared images can be set to zero.

    It must prepare images as pixels (…, 3, h, w), tiles included, and be an `ImageNormalizer` if
    these are bytes. Images that are prepared as patches have no such pixels.
    """
    if not isinstance(model, ImagePreparer):
        return False
    try:
        pixels = _get_pixels(model.prepare_image(_solid_image(0)))
    except InputError:
        return False
    return pixels.is_floating_point() or isinstance(model, ImageNormalizer)


def zero_color(model: object) -> tuple[float, ...]:
    """Color (RGB, 0 to 1) nearest to zero in a model's normalized pixel space."""
    mean: tuple[float, ...] | None = getattr(model, "pixel_mean", None)
    return GRAY if mean is None else mean


def normalize_prepared(model: ImagePreparer, prepared: PreparedImage) -> PreparedImage:
    """Normalize a prepared image where that is left to do, for `hide_pixels`; thread-safe."""
    if _get_pixels(prepared).is_floating_point():
        return prepared
    if not isinstance(model, ImageNormalizer):
        raise InputError(
            f"the model's images cannot be normalised; use {option('baseline', 'mean')}."
        )
    return model.normalize_image(prepared)


def hide_pixels(
    model: ImagePreparer, prepared: PreparedImage, hidden: NDArray[np.bool_]
) -> PreparedImage:
    """Copy a normalized image with its masked pixels set to zero; thread-safe.

    Args:
        model: one for which `can_mask_pixels` holds.
        prepared: the full image, of `normalize_prepared`.
        hidden: (height, width) mask, true where the image is hidden.
    """
    over = _prepare_cover(model, hidden)
    blank = _get_pixels(prepared).masked_fill(over, 0.0)
    return {**prepared, "pixel_values": blank} if isinstance(prepared, Mapping) else blank


def _prepare_cover(model: ImagePreparer, hidden: NDArray[np.bool_]) -> Tensor:
    """(…, 1, h, w) whether a prepared pixel lies under the mask."""
    steps = model.resize_crop if isinstance(model, CropPreparer) else None
    if steps is not None:
        import torch

        return torch.from_numpy(steps.cover(hidden))[None]
    from PIL import Image

    gray = Image.fromarray(hidden.astype(np.uint8) * np.uint8(255))
    drawn = _get_pixels(model.prepare_image(gray.convert("RGB")))
    over = drawn > (_midpoint(model) if drawn.is_floating_point() else MID_BYTE)
    return over.any(dim=-3, keepdim=True)


def _midpoint(model: ImagePreparer) -> Tensor:
    """(3, 1, 1) midpoint between black and white in normalized pixels."""
    white = _flatten_channels(model.prepare_image(_solid_image(255))).amax(dim=1)
    black = _flatten_channels(model.prepare_image(_solid_image(0))).amin(dim=1)
    return ((white + black) / 2)[:, None, None]


def _solid_image(shade: int) -> Image:
    from PIL import Image

    return Image.new("RGB", PROBE_SIZE, (shade, shade, shade))


def _flatten_channels(prepared: Any) -> Tensor:
    """(3, pixels) values of a prepared image per channel, padding included."""
    return _get_pixels(prepared).float().movedim(-3, 0).flatten(1)


def _get_pixels(prepared: Any) -> Tensor:
    """Pixel tensor (…, 3, h, w) of a prepared image.

    Raises:
        InputError: it has none.
    """
    pixels: Any = prepared.get("pixel_values") if isinstance(prepared, Mapping) else prepared
    if getattr(pixels, "ndim", 0) < 3 or pixels.shape[-3] != 3:
        raise InputError("images of this model are not pixels, so that none of them can be zero.")
    return pixels  # type: ignore[no-any-return]
