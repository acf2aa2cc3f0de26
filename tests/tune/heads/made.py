"""Features in which captions tell something of their images."""

from __future__ import annotations

import numpy as np

from contrapose.tune.heads import Features


def made(images: int, each: int, *, seed: int = 0, noise: float = 0.5) -> Features:
    """The same two encoders whatever the seed, other images."""
    encoders = np.random.default_rng(99)
    left, right = encoders.normal(size=(10, 20)), encoders.normal(size=(10, 14))
    draw = np.random.default_rng(seed)
    scenes = draw.normal(size=(images, 10))
    owners = np.repeat(np.arange(images), each)
    rows = scenes @ left + noise * draw.normal(size=(images, 20)) + 1
    texts = scenes[owners] @ right + noise * draw.normal(size=(images * each, 14))
    return Features(rows.astype(np.float32), texts.astype(np.float32), owners)
