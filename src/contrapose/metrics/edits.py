"""SIMAT: an image and a change of words, and the images that answer it.

The score is Σ μᵢ·1[oracle(Jᵢ, Tᵢ) > ½], μ normalised to one (Couairon et al., Embedding Arithmetic
of Multimodal Queries for Image Retrieval, 2022, equation 1); with n > 1 the best of the first n
images counts.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrapose.errors import InputError
from contrapose.metrics.outcome import Outcome, decided
from contrapose.metrics.statistics.statistic import Statistic, mean_of
from contrapose.metrics.types import FloatArray, finite

Skip = Literal["always", "if first"]

CHUNK = 1 << 22
"""Scores ranked together."""


def rank_edits(
    scores: ArrayLike, query_image: ArrayLike, n: int = 1, *, skip: Skip = "always"
) -> NDArray[np.int64]:
    """The n best images for each query, best first, the query's own image left out.

    Among equal scores the earlier image comes first.

    Args:
        scores: (q, N) similarity of each edited query with each image of the database.
        query_image: (q,) position of the image that each query starts from.
        n: how many images to give.
        skip: "always" leaves the query's image out; "if first" only when it ranks first, as the
            released script does, so that it can take one of several places.

    Raises:
        InputError: a shape does not fit, there are too few images, or a score is not finite.
    """
    array, own = np.asarray(scores), np.asarray(query_image, dtype=np.int64)
    if array.ndim != 2 or own.shape != array.shape[:1]:
        raise InputError(f"{own.shape} query images do not fit scores of shape {array.shape}.")
    if skip not in ("always", "if first"):
        raise InputError(f"skip must be 'always' or 'if first', not {skip!r}.")
    queries, images = array.shape
    if not 1 <= n < images:
        raise InputError(f"n must be from 1 to {images - 1}, the images beside the query's own.")
    if queries and not (own.min() >= 0 and own.max() < images):
        raise InputError(f"query images must lie in 0 … {images - 1}.")
    ranked = np.empty((queries, n), dtype=np.int64)
    rows = max(1, CHUNK // images)
    for start in range(0, queries, rows):
        part = slice(start, start + rows)
        ranked[part] = _ranked(finite(array[part], "scores"), own[part], n, skip)
    return ranked


def best_of(hits: ArrayLike, n: int) -> Outcome:
    """Whether any of the first n answers to each query is right.

    Args:
        hits: (q, at least n) whether the oracle takes each answer, best ranked first.
        n: how many answers count.
    """
    array = np.asarray(hits, dtype=np.bool_)
    if array.ndim != 2 or not 1 <= n <= array.shape[1]:
        raise InputError(f"the best of {n} cannot be taken from hits of shape {array.shape}.")
    found = np.asarray(array[:, :n].any(axis=1))
    return decided(found, np.zeros(len(array), dtype=np.bool_), None)


def simat_score(hits: ArrayLike, weights: ArrayLike, n: int = 1) -> Statistic:
    """The weighted share of queries with a right answer among the first n.

    Args:
        hits: (q, at least n) whether the oracle takes each answer, best ranked first.
        weights: (q,) μ before normalisation, 1/sqrt(norm2).
        n: how many answers count, 1 or 5 in the paper.
    """
    return mean_of(best_of(hits, n).values, weights)


def _ranked(scores: FloatArray, own: NDArray[np.int64], n: int, skip: Skip) -> NDArray[np.int64]:
    left = scores.copy()
    rows = np.arange(len(left))
    if skip == "always":
        left[rows, own] = -np.inf
    else:
        first = left.argmax(axis=1) == own
        left[rows[first], own[first]] = -np.inf
    ranked = np.empty((len(left), n), dtype=np.int64)
    for place in range(n):
        ranked[:, place] = left.argmax(axis=1)
        left[rows, ranked[:, place]] = -np.inf
    return ranked
