"""A model's answers as arrays, and how far apart two lists of them are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]


def array(values: Any) -> FloatArray:
    """A tensor of any device and type, or anything like an array, as float64."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() else values
        values = values.numpy()
    return np.asarray(values, dtype=np.float64)


def apart(one: Sequence[FloatArray], other: Sequence[FloatArray]) -> float:
    """The largest relative difference of two lists of answers, item by item.

    An item near zero is measured against the usual size of the answers instead of its own.
    """
    if len(one) != len(other) or any(a.shape != b.shape for a, b in zip(one, other, strict=True)):
        return float("inf")
    sizes = [float(np.linalg.norm(each)) for each in one]
    usual = float(np.mean(sizes)) if sizes else 0.0
    worst = 0.0
    for a, b, size in zip(one, other, sizes, strict=True):
        distance = float(np.linalg.norm(a - b))
        if distance:
            scale = max(size, usual)
            worst = max(worst, distance / scale if scale else float("inf"))
    return worst


def pixels(picture: Any) -> tuple[FloatArray, ...]:
    """The numbers of a picture of any kind: an image, a tensor, or named tensors in order."""
    if isinstance(picture, Mapping):
        return tuple(array(picture[name]) for name in sorted(picture))
    return (array(picture),)


def same_pixels(one: Any, other: Any) -> bool:
    """Whether two pictures hold the same numbers in the same places."""
    pairs = zip(pixels(one), pixels(other), strict=False)
    return len(pixels(one)) == len(pixels(other)) and all(
        a.shape == b.shape and np.array_equal(a, b) for a, b in pairs
    )
