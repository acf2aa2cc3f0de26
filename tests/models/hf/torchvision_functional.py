"""The few functions of torchvision that the video processors of transformers call.

They are written after torchvision's documentation with torch alone, and put in its place only where
it is not installed.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from PIL.Image import Resampling
from torch import Tensor
from torch.nn import functional


class InterpolationMode(Enum):
    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


def resize(
    image: Tensor,
    size: Sequence[int],
    interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Tensor:
    if tuple(size) == tuple(image.shape[-2:]):
        return image
    flat = image.reshape(-1, *image.shape[-3:])
    resized = functional.interpolate(
        flat, tuple(size), mode=interpolation.value, align_corners=False, antialias=bool(antialias)
    )
    return resized.reshape(*image.shape[:-2], *resized.shape[-2:])


def normalize(
    image: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False
) -> Tensor:
    means, deviations = (
        torch.as_tensor(values, dtype=image.dtype).view(-1, 1, 1) for values in (mean, std)
    )
    return (image - means) / deviations


def pad(
    image: Tensor, padding: Sequence[int], fill: float = 0, padding_mode: str = "constant"
) -> Tensor:
    left, top, right, bottom = padding
    return functional.pad(image, (left, right, top, bottom), mode=padding_mode, value=fill)


def crop(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    return image[..., top : top + height, left : left + width]


def grayscale_to_rgb(image: Tensor) -> Tensor:
    return image if image.shape[-3] != 1 else image.expand(*image.shape[:-3], 3, *image.shape[-2:])


def to_dtype(image: Tensor, dtype: torch.dtype, scale: bool = False) -> Tensor:
    return image.to(dtype) / 255 if scale and image.dtype == torch.uint8 else image.to(dtype)


NAMES = ("torchvision", "torchvision.transforms", "torchvision.transforms.v2")
USERS = ("image_processing_backends", "video_processing_utils")
"""Modules of transformers that import torchvision only where it is installed."""


@contextmanager
def in_place() -> Iterator[None]:
    """Put these functions where torchvision has its own, if it is not installed."""
    if importlib.util.find_spec("torchvision") is not None:
        yield
        return
    here = sys.modules[__name__]
    stand_ins = {name: ModuleType(name) for name in NAMES}
    for module in stand_ins.values():
        module.__dict__.update(InterpolationMode=InterpolationMode, functional=here, __path__=[])
    sys.modules.update({**stand_ins, f"{NAMES[-1]}.functional": here})
    stand_ins[NAMES[0]].__dict__["transforms"] = stand_ins[NAMES[1]]
    stand_ins[NAMES[1]].__dict__["v2"] = stand_ins[NAMES[2]]
    for name in USERS:
        user: Any = import_module(f"transformers.{name}")
        user.__dict__.setdefault("tvF", here)
        if not user.__dict__.get("pil_torch_interpolation_mapping"):
            user.__dict__["pil_torch_interpolation_mapping"] = {
                Resampling[mode.name]: mode
                for mode in InterpolationMode
                if mode.name in Resampling.__members__
            }
    try:
        yield
    finally:
        for name in (*NAMES, f"{NAMES[-1]}.functional"):
            sys.modules.pop(name, None)
