"""Image transform of most encoders: resize, center crop, rescale, normalize.

Images are resized to bytes on the CPU and normalized on the network's device, which transfers a
quarter of the data. The numbers equal those of the usual order of steps to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL.Image import Image, Resampling
from torch import Tensor

from contrapose.models.exact import to_device
from contrapose.resize_crop import ResizeCrop

_FILTER_NAMES = {
    Resampling.BICUBIC: "bicubic",
    Resampling.BILINEAR: "bilinear",
    Resampling.LANCZOS: "Lanczos",
    Resampling.BOX: "box",
    Resampling.HAMMING: "Hamming",
}


@dataclass(frozen=True, slots=True)
class ImageTransform:
    """Image transform: resize, center crop, rescale and normalize.

    Attributes:
        resize: the new (height, width), or the new length of the shorter side.
        crop: (height, width) of the center crop; None for no crop.
        resample: Pillow's filter.
        mean: per channel, of values from 0 to 1.
        std: per channel, of values from 0 to 1.
        even: round an odd crop offset to the even neighbor as torchvision does, not down as
            transformers does.
    """

    resize: tuple[int, int] | int
    crop: tuple[int, int] | None
    resample: Resampling
    mean: tuple[float, ...]
    std: tuple[float, ...]
    even: bool = False

    def describe(self) -> str:
        """Describe the transform in one line for the model card."""
        how = _FILTER_NAMES.get(self.resample, self.resample.name.lower())
        if isinstance(self.resize, int):
            size = f"shorter side to {self.resize}"
        else:
            size = f"to {self.resize[1]}×{self.resize[0]}, whatever its shape"
        crop = f", middle {self.crop[1]}×{self.crop[0]} cropped" if self.crop else ""
        return f"RGB, resized ({how}) {size}{crop}, normalised"

    @property
    def resize_crop(self) -> ResizeCrop:
        """Its first steps, which need no torch."""
        return ResizeCrop(self.resize, self.crop, int(self.resample), self.even)

    def resize_to_bytes(self, image: Image) -> Tensor:
        """Resize and crop an image to bytes (3, h, w)."""
        return torch.from_numpy(self.resize_crop.to_bytes(image))

    def normalize_bytes(self, pixels: Tensor) -> Tensor:
        """Normalize bytes (…, 3, h, w) to float32 pixels, on their device."""
        # Divisors are tensors: a plain number would become a product with its reciprocal on a GPU.
        values = pixels.float()
        values.div_(torch.full((), 255.0, device=values.device))
        return values.sub_(_channel_column(self.mean, values)).div_(
            _channel_column(self.std, values)
        )

    def __call__(self, image: Image) -> Tensor:
        """Transform an image to float32 pixels (3, h, w)."""
        return self.normalize_bytes(self.resize_to_bytes(image))

    def fits(self) -> bool:
        """Whether every image is at least as large as its crop after resizing."""
        if self.crop is None:
            return True
        if isinstance(self.resize, int):
            return max(self.crop) <= self.resize
        return self.crop[0] <= self.resize[0] and self.crop[1] <= self.resize[1]


FILTERS = {"bicubic": Resampling.BICUBIC, "bilinear": Resampling.BILINEAR}


def torchvision_transform(
    config: Any, size: tuple[int, int], *, squash: bool = False, crop_share: float = 1.0
) -> ImageTransform | None:
    """Image transform equal to torchvision's, as open_clip and timm configure it.

    Args:
        config: with `interpolation`, `mean` and `std`.
        size: (height, width) that the network takes.
        squash: resize to the size whatever the aspect ratio; otherwise resize the shorter side and
            crop the center.
        crop_share: side of the center crop divided by the resized shorter side.

    Returns:
        The transform; None for another filter, or a crop that is not square.
    """
    height, width = size
    if config["interpolation"] not in FILTERS or not (squash or height == width):
        return None
    return ImageTransform(
        resize=size if squash else math.floor(height / crop_share),
        crop=None if squash else size,
        resample=FILTERS[config["interpolation"]],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        even=True,
    )


def _channel_column(values: Sequence[float], like: Tensor) -> Tensor:
    column = torch.tensor(values, dtype=torch.float32)[:, None, None]
    return column.to(like.device, non_blocking=True)


def batch_images(
    rows: Sequence[Tensor],
    steps: ImageTransform | None,
    device: torch.device | str,
    dtype: torch.dtype,
) -> Tensor:
    """Batch prepared images, normalize bytes, and zero-pad smaller images.

    A fourth channel of bytes says which pixels are hidden: they are zero once they are normalized.
    """
    kinds = sorted({(str(row.dtype), len(row)) for row in rows})
    if len(kinds) > 1 and steps is not None:
        if len({row.shape[1:] for row in rows}) == 1:
            return _batch_mixed(rows, kinds, steps, device, dtype)
        rows = [steps.normalize_bytes(row) if row.dtype == torch.uint8 else row for row in rows]
    batch = to_device(_stack_padded(rows, pinned=torch.device(device).type == "cuda"), device)
    if steps is not None and batch.dtype == torch.uint8:
        pixels = steps.normalize_bytes(batch[:, :3])
        batch = pixels.masked_fill_(batch[:, 3:] > 0, 0.0) if kinds[0][1] > 3 else pixels
    return batch.to(dtype) if batch.is_floating_point() else batch


def _batch_mixed(
    rows: Sequence[Tensor],
    kinds: Sequence[tuple[str, int]],
    steps: ImageTransform,
    device: torch.device | str,
    dtype: torch.dtype,
) -> Tensor:
    """Batch images of one size and several kinds: bytes, bytes with a mask, normalized pixels."""
    groups = [
        [i for i, row in enumerate(rows) if (str(row.dtype), len(row)) == kind] for kind in kinds
    ]
    parts = [batch_images([rows[i] for i in some], steps, device, dtype) for some in groups]
    order = torch.empty(len(rows), dtype=torch.long)
    order[[i for some in groups for i in some]] = torch.arange(len(rows))
    return torch.cat(parts)[to_device(order, device)]


def _stack_padded(tensors: Sequence[Tensor], *, pinned: bool) -> Tensor:
    first = tensors[0]
    pinned = pinned and not first.is_cuda
    shapes = {tuple(tensor.shape) for tensor in tensors}
    if len(shapes) == 1:
        if not pinned:
            return torch.stack(list(tensors))
        batch = torch.empty((len(tensors), *first.shape), dtype=first.dtype, pin_memory=True)
        return torch.stack(list(tensors), out=batch)
    largest = [max(sizes) for sizes in zip(*shapes, strict=True)]
    batch = first.new_zeros(len(tensors), *largest)
    for row, tensor in zip(batch, tensors, strict=True):
        row[tuple(slice(size) for size in tensor.shape)] = tensor
    return batch
