"""Galleries too large for every pair: an encoder finds the nearest, a matcher orders those.

As ALBEF and BLIP do it: for every image the k captions of highest `itc`, for every caption the k
images, and only those are asked. The two ways are two rankings: a pair that is near from the
caption's side alone says nothing in the image's ranking.
"""

from __future__ import annotations

import numpy as np

from contrapose.metrics import BoolArray, FloatArray

DEFAULT = 16
"""Of each query, when the user does not say."""

SMALL = 100_000
"""Galleries with no more pairs are asked whole, when the user does not say."""


def nearest(itc: FloatArray, k: int, axis: int) -> BoolArray:
    """For each query the k of highest score along the axis; of equals the earlier.

    Where a row or a column is NaN there is nothing to rank, and nothing is chosen.
    """
    scores = np.moveaxis(np.where(np.isnan(itc), -np.inf, itc), axis, 1)
    k = min(k, scores.shape[1])
    chosen = np.zeros(scores.shape, dtype=np.bool_)
    for start in range(0, len(scores), 256):
        some = scores[start : start + 256]
        last = -np.partition(-some, k - 1, axis=1)[:, k - 1, None]
        above, equal = some > last, some == last
        room = k - above.sum(axis=1, keepdims=True)
        chosen[start : start + 256] = above | (equal & (np.cumsum(equal, axis=1) <= room))
    return np.asarray(np.moveaxis(chosen & np.isfinite(scores), 1, axis))


def below(scores: FloatArray, itc: FloatArray, inside: BoolArray) -> FloatArray:
    """Scores where they were asked; everything else beneath the lowest of them, by `itc`."""
    asked = scores[inside]
    lowest = asked[np.isfinite(asked)].min(initial=0.0)
    # Cosines lie in −1 … 1: two below the lowest, plus a cosine, is below it.
    return np.asarray(np.where(inside, scores, lowest - 2.0 + itc), dtype=np.float64)
