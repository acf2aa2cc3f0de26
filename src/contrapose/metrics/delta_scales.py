"""Scale of delta vectors: the SIMAT score of edit queries as a function of λ.

A query start + λ·delta ranks an image x by ⟨start, x⟩ + λ·⟨delta, x⟩, since its length is the same
for all images: both products are computed once, and every λ costs one sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contrapose.errors import InputError
from contrapose.metrics.types import BoolArray, FloatArray, IntArray

SCALES = tuple(round(0.1 * step, 1) for step in range(51))
"""λ from 0 to 5 in steps of 0.1."""

BLOCK = 64
"""Queries at a time, so that their products stay in the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class EditVectors:
    """Vectors of edit queries and of the database that they are looked up in.

    Attributes:
        start: (q, d) vectors that the queries start from.
        delta: (q, d) vectors that are added to them λ times.
        gallery: (N, d) vectors of the database; a row of NaN is never an answer.
        excluded: (q,) position of the database entry that is left out for each query.
        targets: (q,) caption that the answer must fit.
    """

    start: FloatArray
    delta: FloatArray
    gallery: FloatArray
    excluded: IntArray
    targets: IntArray

    def take(self, rows: IntArray) -> EditVectors:
        """Vectors of some queries."""
        return EditVectors(
            self.start[rows],
            self.delta[rows],
            self.gallery,
            self.excluded[rows],
            self.targets[rows],
        )


def sweep_scales(
    vectors: EditVectors, fits: BoolArray, weights: FloatArray, scales: Sequence[float] = SCALES
) -> NDArray[np.float64]:
    """Weighted share of queries whose first answer is right, for each λ; ties never win.

    Args:
        vectors: of the queries and the database.
        fits: (N, captions) whether a database entry fits a caption.
        weights: (q,) μ before normalization.
        scales: the λ to try.

    Raises:
        InputError: there are no queries or no scales.
    """
    if not len(vectors.start) or not len(scales):
        raise InputError("λ can only be swept over some queries and some values.")
    known: BoolArray = np.asarray(~np.isnan(vectors.gallery).any(axis=1))
    gallery = np.where(known[:, None], vectors.gallery, 0)
    hits = np.zeros((len(scales), len(vectors.start)), dtype=np.bool_)
    for first in range(0, len(vectors.start), BLOCK):
        part = slice(first, first + BLOCK)
        still, moved = vectors.start[part] @ gallery.T, vectors.delta[part] @ gallery.T
        rows = np.arange(len(still))
        still[:, ~known] = -np.inf
        still[rows, vectors.excluded[part]] = -np.inf
        row, column = np.nonzero(fits[:, vectors.targets[part]].T)
        right = still[row, column], moved[row, column]
        still[row, column] = -np.inf
        for k, scale in enumerate(scales):
            best = np.full(len(still), -np.inf, dtype=still.dtype)
            np.maximum.at(best, row, right[0] + scale * right[1])
            hits[k, part] = best > (still + scale * moved).max(axis=1)
    return np.asarray(hits @ weights / weights.sum())


def best_scale(scales: Sequence[float], scores: FloatArray) -> float:
    """λ of the highest score; of equal ones the nearest to 1."""
    highest = np.flatnonzero(scores == scores.max()).tolist()
    return min((scales[k] for k in highest), key=lambda scale: (abs(scale - 1), scale))
