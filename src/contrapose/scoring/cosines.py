"""Scores of vectors: the cosine, or where an image has several vectors the largest of theirs.

Several vectors of an image lie end to end in one row, q · d numbers; a caption has d, which tells
how many there are. Everything is done in pieces, so that memory stays bounded.
"""

from __future__ import annotations

import numpy as np

from contrapose.metrics import FloatArray, IntArray

CELLS = 1 << 23
"""Numbers that one piece of the work holds at the most."""


def pair_cosines(images: FloatArray, texts: FloatArray, pairs: IntArray) -> FloatArray:
    """(p,) of the pairs in float64, so that no comparison hangs on the sum's rounding.

    Args:
        images: (n, q · d); NaN where there is none.
        texts: (m, d).
        pairs: (p, 2) positions in them.
    """
    found = np.full(len(pairs), np.nan)
    if not images.size or not texts.size:  # not one of them has a vector
        return found
    width = texts.shape[1]
    step = max(1, CELLS // images.shape[1])
    for start in range(0, len(pairs), step):
        some = pairs[start : start + step]
        several = images[some[:, 0]].astype(np.float64).reshape(len(some), -1, width)
        right = texts[some[:, 1]].astype(np.float64)
        found[start : start + len(some)] = np.einsum("pqd,pd->pq", several, right).max(axis=1)
    return found


def grid_cosines(images: FloatArray, texts: FloatArray) -> FloatArray:
    """(n, m) of all images with all texts, in float32."""
    width = texts.shape[1]
    several = images.shape[1] // width
    if several == 1:
        return np.asarray(images @ texts.T)
    found = np.empty((len(images), len(texts)), dtype=np.float32)
    step = max(1, CELLS // (several * len(texts)))
    for start in range(0, len(images), step):
        some = images[start : start + step]
        each = some.reshape(-1, width) @ texts.T
        found[start : start + step] = each.reshape(len(some), several, -1).max(axis=1)
    return found
