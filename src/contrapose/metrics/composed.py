"""Composed image retrieval: ranked lists, recall at K, mean average precision at K, and chance.

Only the best images of each query are kept, so that a gallery of any size is ranked block by block.
Among equal scores the wrong images come first: ties are never wins. The order in which the right
ones come first is kept as well, which tells where a tie decides.

Average precision at K is the sum over the right images of the first K of the precision at their
rank, over min(right images, K) (Baldrati et al., Zero-Shot Composed Image Retrieval with Textual
Inversion, 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrapose.errors import InputError
from contrapose.metrics.types import BoolArray, FloatArray, IntArray, widen

DEPTH = 50
"""Images of each query that are kept; no benchmark looks further down."""


@dataclass(frozen=True, slots=True, eq=False)
class RankedLists:
    """Best images of each query, best first.

    Attributes:
        positions: (q, depth) positions of the images; −1 behind the end of a shorter list, and for
            an image that is not known.
        hits: (q, depth) which of them are right; among equal scores the wrong images come first.
        lucky_hits: (q, depth) the same where the right images come first.
        values: (q, depth) their scores; NaN where there is none.
        first: (q,) rank of the best right image, from 1; 0 where it is not known.
    """

    positions: NDArray[np.int64]
    hits: BoolArray
    lucky_hits: BoolArray
    values: NDArray[np.float64]
    first: NDArray[np.int64]

    @classmethod
    def empty(cls, queries: int, depth: int = DEPTH) -> RankedLists:
        """Lists without any image."""
        shape = queries, depth
        return cls(
            np.full(shape, -1, dtype=np.int64),
            np.zeros(shape, dtype=np.bool_),
            np.zeros(shape, dtype=np.bool_),
            np.full(shape, np.nan),
            np.zeros(queries, dtype=np.int64),
        )

    def insert(self, rows: IntArray, lists: RankedLists) -> None:
        """Put the lists of some queries in their rows."""
        for name in ("positions", "hits", "lucky_hits", "values", "first"):
            getattr(self, name)[rows] = getattr(lists, name)

    def take(self, rows: IntArray) -> RankedLists:
        """Lists of some queries."""
        return RankedLists(
            self.positions[rows],
            self.hits[rows],
            self.lucky_hits[rows],
            self.values[rows],
            self.first[rows],
        )


def rank_images(
    scores: ArrayLike,
    columns: ArrayLike,
    relevant: Sequence[Sequence[int]],
    excluded: Sequence[int] | None = None,
    *,
    depth: int = DEPTH,
) -> RankedLists:
    """Rank a block of queries over one gallery.

    Args:
        scores: (q, N) score of each query with each image of the gallery; −∞ leaves an image out.
        columns: (N,) positions of the gallery's images, by which the lists name them.
        relevant: positions of the right images of each query.
        excluded: position of the image that is left out of each query's list; −1 for none.
        depth: length of the lists.

    Raises:
        InputError: a shape does not fit, or a score is NaN.
    """
    block, names = widen(scores), np.asarray(columns, dtype=np.int64)
    if block.ndim != 2 or block.shape != (len(relevant), len(names)):
        raise InputError(
            f"scores of shape {block.shape} do not fit {len(relevant)} queries and {len(names)} "
            "images."
        )
    lists = RankedLists.empty(len(block), depth)
    left_out = [-1] * len(block) if excluded is None else excluded
    for q, (row, right, out) in enumerate(zip(block, relevant, left_out, strict=True)):
        _rank_query(lists, q, row, names, np.asarray(right, dtype=np.int64), out)
    return lists


def _rank_query(
    lists: RankedLists, q: int, row: FloatArray, names: IntArray, right: IntArray, out: int
) -> None:
    """Fill the list of one query."""
    depth = lists.positions.shape[1]
    kept = np.isfinite(row) & (names != out)
    size = int(np.count_nonzero(kept))
    if not size:
        return
    scores = np.where(kept, row, -np.inf)
    fits = np.isin(names, right) & kept
    last = -np.inf
    if size > depth:
        last = np.partition(scores, len(scores) - depth)[len(scores) - depth]
    near = np.flatnonzero((scores >= last) & kept)
    order = near[np.lexsort((near, fits[near], -scores[near]))[:depth]]
    lucky = near[np.lexsort((near, ~fits[near], -scores[near]))[:depth]]
    count = len(order)
    lists.positions[q, :count] = names[order]
    lists.hits[q, :count] = fits[order]
    lists.lucky_hits[q, :count] = fits[lucky]
    lists.values[q, :count] = scores[order]
    if fits.any():
        wrong = np.count_nonzero((scores >= scores[fits].max()) & kept & ~fits)
        lists.first[q] = 1 + int(wrong)


def recall_at(hits: BoolArray, k: int) -> NDArray[np.float64]:
    """Recall at K of each query: whether a right image is among the first K of its list."""
    return np.asarray(hits[:, :k].any(axis=1), dtype=np.float64)


def average_precision_at(hits: BoolArray, relevant: ArrayLike, k: int) -> NDArray[np.float64]:
    """Average precision at K of each query.

    Args:
        hits: (q, depth) which images of the list are right.
        relevant: (q,) number of right images of each query, at least 1.
        k: cutoff.
    """
    first = np.asarray(hits[:, :k], dtype=np.float64)
    precision = np.cumsum(first, axis=1) / np.arange(1, first.shape[1] + 1)
    total = (precision * first).sum(axis=1)
    return np.asarray(total / np.minimum(np.asarray(relevant), k))


def recall_chances(sizes: ArrayLike, relevant: ArrayLike, k: int) -> NDArray[np.float64]:
    """Chance level of recall at K of each query: one of g right images of N is in the first K.

    Args:
        sizes: (q,) number of images N that are ranked.
        relevant: (q,) number of right images g.
        k: cutoff.
    """
    n, g = (np.asarray(values, dtype=np.float64)[:, None] for values in (sizes, relevant))
    i = np.arange(k)
    wrong = np.maximum(n - g - i, 0) / np.maximum(n - i, 1)
    return np.asarray(1 - np.prod(wrong, axis=1))


def average_precision_chances(sizes: ArrayLike, relevant: ArrayLike, k: int) -> NDArray[np.float64]:
    """Chance level of average precision at K of each query, for a ranking at random.

    Rank r holds a right image with probability g/N, and then (r − 1)(g − 1)/(N − 1) of those above
    are right in expectation. Arguments as in `recall_chances`.
    """
    n, g = (np.asarray(values, dtype=np.float64)[:, None] for values in (sizes, relevant))
    rank = np.arange(1, k + 1)
    above = (rank - 1) * (g - 1) / np.maximum(n - 1, 1)
    precision = np.where(rank <= n, g / np.maximum(n, 1) * (1 + above) / rank, 0)
    return np.asarray(precision.sum(axis=1) / np.minimum(g, k)[:, 0])
