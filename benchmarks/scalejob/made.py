"""Made ids and scores of pairs, the same for the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

CAPTIONS_PER_IMAGE = 5
BLOCK = 1_000_000
GIB = 2**30

Timer = Callable[[str], None]
"""Says which phase of a step has ended."""


def float_values(draw: np.random.Generator, count: int) -> Any:
    """Scores as models give them: float32 numbers, which the store holds in float64."""
    return draw.normal(size=count).astype(np.float32).astype(np.float64)


def pair_ids(start: int, count: int) -> tuple[list[str], list[str]]:
    """Make content ids of pairs, the same for the same numbers; five pairs share an image."""
    image, text = id_digits(start, count)
    texts = [text[k : k + 32] for k in range(0, 32 * count, 32)]
    images = [image[k : k + 32] for k in range(0, len(image), 32)]
    return [images[i // CAPTIONS_PER_IMAGE] for i in range(count)], texts


def id_digits(start: int, count: int) -> tuple[str, str]:
    """Make the digits of the ids of distinct images and of captions, end to end."""
    images, texts = id_words(start, count)
    return images.tobytes().hex(), texts.tobytes().hex()


def id_words(start: int, count: int) -> tuple[Any, Any]:
    """Make packed ids of distinct images and of captions."""
    images = -(-count // CAPTIONS_PER_IMAGE)
    words = (
        np.random.default_rng((0, start)).bytes(16 * images),
        np.random.default_rng((1, start)).bytes(16 * count),
    )
    return tuple(np.frombuffer(some, np.uint64).reshape(-1, 2) for some in words)  # type: ignore[return-value]
