"""The few parts of torchvision that open_clip and timm import, where torchvision is not installed.

Resizing and cropping are written after torchvision's documentation, with Pillow: enough to run
open_clip's own evaluation transform.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn


class InterpolationMode(Enum):
    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


class Compose:
    def __init__(self, transforms: list[Callable[[Any], Any]]):
        self.transforms = transforms

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


class Resize:
    """A number is the shorter side's length; two are height and width."""

    def __init__(self, size: Any, interpolation: InterpolationMode = InterpolationMode.BILINEAR):
        self.size = size
        self.filter = Image.Resampling[interpolation.name]

    def __call__(self, image: Image.Image) -> Image.Image:
        if not isinstance(self.size, int):
            return image.resize((self.size[1], self.size[0]), self.filter)
        short, long = sorted(image.size)
        other = int(self.size * long / short)
        wide = image.width > image.height
        return image.resize((other, self.size) if wide else (self.size, other), self.filter)


class CenterCrop:
    def __init__(self, size: Any):
        height, width = (size, size) if isinstance(size, int) else size
        self.height: int = height
        self.width: int = width

    def __call__(self, image: Image.Image) -> Image.Image:
        top = round((image.height - self.height) / 2.0)
        left = round((image.width - self.width) / 2.0)
        return image.crop((left, top, left + self.width, top + self.height))


class ToTensor:
    def __call__(self, image: Image.Image) -> Tensor:
        return to_tensor(image)


def to_tensor(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(255)


def resize(image: Image.Image, size: Any, interpolation: InterpolationMode) -> Image.Image:
    return Resize(size, interpolation)(image)


def get_dimensions(image: Image.Image) -> list[int]:
    return [len(image.getbands()), image.height, image.width]


def pad(image: Image.Image, padding: list[int], fill: int) -> Image.Image:
    left, top, right, bottom = padding
    size = (image.width + left + right, image.height + top + bottom)
    whole = Image.new(image.mode, size, (fill,) * len(image.getbands()))
    whole.paste(image, (left, top))
    return whole


def crop(image: Image.Image, top: int, left: int, height: int, width: int) -> Image.Image:
    return image.crop((left, top, left + width, top + height))


class Normalize:
    def __init__(self, mean: Any, std: Any):
        self.mean, self.std = mean, std

    def __call__(self, values: Tensor) -> Tensor:
        mean, std = torch.tensor(self.mean), torch.tensor(self.std)
        return (values - mean[:, None, None]) / std[:, None, None]


class _Parts(ModuleType):
    """Anything else that is asked for is an empty class: it is imported and never used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (nn.Module,), {})


def _module(name: str, **members: Any) -> ModuleType:
    module = _Parts(name)
    module.__spec__ = ModuleSpec(name, None, is_package=True)
    module.__path__ = []
    for key, value in members.items():
        setattr(module, key, value)
    return module


@contextmanager
def torchvision() -> Iterator[None]:
    """Inside, `import torchvision` works, with the real one where it is installed."""
    from transformers.utils.import_utils import is_torchvision_available

    is_torchvision_available()  # asked before, and remembered: transformers shall not use ours
    if importlib.util.find_spec("torchvision") is not None:
        yield
        return
    parts = {
        "InterpolationMode": InterpolationMode,
        "Compose": Compose,
        "Resize": Resize,
        "CenterCrop": CenterCrop,
        "ToTensor": ToTensor,
        "Normalize": Normalize,
    }
    functional = _module(
        "torchvision.transforms.functional",
        InterpolationMode=InterpolationMode,
        to_tensor=to_tensor,
        resize=resize,
        get_dimensions=get_dimensions,
        pad=pad,
        crop=crop,
    )
    transforms = _module("torchvision.transforms", functional=functional, **parts)
    misc = _module("torchvision.ops.misc")
    modules = [
        _module("torchvision", transforms=transforms, __version__="0"),
        transforms,
        functional,
        _module("torchvision.ops", misc=misc),
        misc,
        _module("torchvision.datasets"),
        _module("torchvision.models"),
        _module("torchvision.models.feature_extraction"),
    ]
    for module in modules:
        sys.modules[module.__name__] = module
    try:
        yield
    finally:
        for module in modules:
            sys.modules.pop(module.__name__, None)


def import_open_clip() -> Any:
    """The open_clip library, with timm."""
    with torchvision():
        import open_clip
        import timm.data  # noqa: F401
    return open_clip
