"""Pillow's resizing on a GPU, equal to Pillow's to the last bit.

Pillow resizes bytes in two passes by weights rounded to integers (22 bits behind the point), and
rounds each pass to bytes. Sums of such products are below 2⁵³, so that float64 matrix products give
the same integers in any order of summation. Which pass comes first depends on the sizes and on
Pillow's version: the first image of each size is resized by Pillow too, and a size whose bytes do
not agree is left to Pillow. Decoding stays with the CPU; resizing is two thirds of the work on an
image of 640 × 480.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image, Resampling
from torch import Tensor

PRECISION = 22
"""Bits behind the point of Pillow's integer weights."""

MAX_GPU_PIXELS = 1 << 21
"""Pixels of an image that is resized on the GPU, at the most; larger ones cost more to transfer."""


def _bilinear(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(x < 1.0, 1.0 - x, 0.0)


def _bicubic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    a = -0.5
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


KERNELS: dict[Resampling, tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], float]] = {
    Resampling.BILINEAR: (_bilinear, 1.0),
    Resampling.BICUBIC: (_bicubic, 2.0),
}
"""Filter → kernel as a function of the distance, and its support."""

_streams = threading.local()

_passes: dict[object, tuple[bool, ...]] = {}
"""By sizes and filter, which orders of the two passes give Pillow's bytes: across first, or not."""


@lru_cache(maxsize=512)
def build_weights(length: int, size: int, first: int, last: int, resample: Resampling) -> Tensor:
    """Pillow's integer weights of outputs `first` to `last` of `size` from `length` inputs.

    Returns:
        (last − first, length), integers in float64.
    """
    kernel, reach = KERNELS[resample]
    scale = length / size
    stretch = max(scale, 1.0)
    support = reach * stretch
    outputs = np.arange(first, last)
    center = (outputs + 0.5) * scale
    begin = np.maximum((center - support + 0.5).astype(np.int64), 0)
    end = np.minimum((center + support + 0.5).astype(np.int64), length)
    inputs = begin[:, None] + np.arange(int((end - begin).max()))
    inside = inputs < end[:, None]
    weights = kernel(np.abs((inputs - center[:, None] + 0.5) * (1.0 / stretch))) * inside
    # Pillow adds the weights one after the other.
    weights /= np.cumsum(weights, axis=1)[:, -1:]
    scaled = weights * (1 << PRECISION)
    rounded = np.trunc(np.where(scaled < 0, scaled - 0.5, scaled + 0.5))
    dense = np.zeros((len(outputs), length))
    rows = np.broadcast_to(np.arange(len(outputs))[:, None], inputs.shape)
    dense[rows[inside], inputs[inside]] = rounded[inside]
    return torch.from_numpy(dense)


@lru_cache(maxsize=512)
def _place_weights(
    length: int, size: int, span: tuple[int, int], resample: Resampling, device: torch.device
) -> Tensor:
    return build_weights(length, size, *span, resample).to(device)


def resize_bytes(
    pixels: Tensor,
    size: tuple[int, int],
    box: tuple[int, int, int, int],
    resample: Resampling,
    *,
    across_first: bool = True,
) -> Tensor:
    """Resize an image by Pillow's weights, and crop it.

    Args:
        pixels: (height, width, channels) bytes, on any device.
        size: new (height, width).
        box: top, left, bottom and right of the crop in the resized image.
        resample: a filter of `KERNELS`.
        across_first: change the width before the height.

    Returns:
        Bytes (channels, bottom − top, right − left).
    """
    top, left, bottom, right = box
    height, width = pixels.shape[:2]
    across = _place_weights(width, size[1], (left, right), resample, pixels.device)
    down = _place_weights(height, size[0], (top, bottom), resample, pixels.device)
    planes = pixels.permute(2, 0, 1).to(torch.float64)
    if across_first:
        resized = _round(down @ _round(planes @ across.T))
    else:
        resized = _round(_round(down @ planes) @ across.T)
    return resized.to(torch.uint8)


def _round(sums: Tensor) -> Tensor:
    """Round fixed-point sums to whole bytes, as floats."""
    half = 1 << (PRECISION - 1)
    return sums.add_(half).div_(1 << PRECISION).floor_().clamp_(0, 255)


def can_resize(image: Image, resample: Resampling, device: torch.device) -> bool:
    """Whether an image is resized on this device rather than by Pillow."""
    fits = image.width * image.height <= MAX_GPU_PIXELS
    return device.type == "cuda" and resample in KERNELS and fits


def resize_like_pillow(
    image: Image,
    size: tuple[int, int],
    box: tuple[int, int, int, int],
    resample: Resampling,
    device: torch.device,
) -> Tensor | None:
    """Resize and crop an RGB image on a device; None where Pillow's bytes cannot be had there.

    On a GPU a stream of the calling thread does it, and the result is complete: other streams may
    read it at once.
    """
    key = image.size, size, box, resample
    orders = _passes.get(key)
    if orders == ():
        return None
    pixels = torch.from_numpy(np.array(image))
    with torch.inference_mode(), _own_stream(device):
        placed = pixels.to(device)
        if orders is None:
            orders = _passes[key] = _find_orders(image, placed, size, box, resample)
        if not orders:
            return None
        return resize_bytes(placed, size, box, resample, across_first=orders[0])


def _find_orders(
    image: Image,
    pixels: Tensor,
    size: tuple[int, int],
    box: tuple[int, int, int, int],
    resample: Resampling,
) -> tuple[bool, ...]:
    """Find the orders of the two passes that give Pillow's bytes for this image."""
    top, left, bottom, right = box
    resized = image.resize((size[1], size[0]), resample).crop((left, top, right, bottom))
    expected = torch.from_numpy(np.array(resized)).permute(2, 0, 1)
    results = {
        order: resize_bytes(pixels, size, box, resample, across_first=order)
        for order in (True, False)
    }
    return tuple(order for order, bytes_ in results.items() if torch.equal(bytes_.cpu(), expected))


@contextmanager
def _own_stream(device: torch.device) -> Iterator[None]:
    """Run on a stream of this thread, and wait for it; nothing on a CPU."""
    if device.type != "cuda":
        yield
        return
    if getattr(_streams, "device", None) != device:
        _streams.device, _streams.stream = device, torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(_streams.stream):
        yield
    _streams.stream.synchronize()
