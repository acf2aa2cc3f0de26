"""Recall at k in a gallery of N images and M captions, both ways.

A query is a hit at k when fewer than k things that do not belong to it score as high as the best
one that does: among equals the wrong ones come first, so that ties are never wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrapose.errors import InputError
from contrapose.metrics.outcome import Outcome, decided
from contrapose.metrics.statistics.clusters import clusters_of
from contrapose.metrics.statistics.joint import combine
from contrapose.metrics.statistics.statistic import Statistic, mean_of
from contrapose.metrics.types import FloatArray, IntArray, wide

CHUNK = 1 << 22
"""Scores looked at together."""

WAYS = ("image_to_text", "text_to_image")


def recalls(
    scores: ArrayLike, pairs: ArrayLike, ks: Sequence[int] = (1, 5, 10)
) -> dict[str, Outcome]:
    """Hits at each k of every image among the texts and of every text among the images.

    Args:
        scores: (N, M) scores of every image with every text; may be memory-mapped.
        pairs: (P, 2) positions (image, text) that belong together, as many as there are.
        ks: how far down to look.

    Returns:
        `image_to_text_r1` … `text_to_image_r10`, each with one value a query: the images (or texts)
        that have a match, in order. Distractors without a match are only competitors.

    Raises:
        InputError: a pair is outside the gallery, there is none, or a score is NaN.
    """
    gallery = np.asarray(scores)
    if gallery.ndim != 2:
        raise InputError(f"scores of a gallery must be N × M, not {gallery.shape}.")
    pairs_ = _pairs(pairs, gallery.shape)
    images, texts = _beaten(gallery, pairs_)
    named: dict[str, Outcome] = {}
    for way, queries, others in zip(WAYS, (images, texts), gallery.shape[::-1], strict=True):
        for k in ks:
            named[f"{way}_r{k}"] = decided(
                queries.at_least < k,
                (queries.above < k) & (queries.at_least >= k),
                recall_chance(others, queries.matches, k),
            )
    return named


def recall_chance(others: int, matches: ArrayLike, k: int) -> float:
    """Mean chance that the best of g right things among `others` is in the first k.

    It is not when the first k are all wrong: C(M − g, k) of C(M, k) equally likely sets, hence
    1 − Π_{i<k} (M − g − i)/(M − i).
    """
    g = np.asarray(matches, dtype=np.float64)[:, None]
    i = np.arange(min(k, others))
    return float(1 - np.prod(np.maximum(others - g - i, 0) / (others - i), axis=1).mean())


def mean_recall(outcomes: Mapping[str, Outcome], pairs: ArrayLike) -> tuple[Statistic, IntArray]:
    """The mean of all recalls both ways, and the clusters to resample it by.

    Image queries and text queries are different examples of one statistic; an image and its
    captions are drawn together.

    Args:
        outcomes: what `recalls` gave.
        pairs: the same pairs as there.
    """
    pairs_ = np.asarray(pairs, dtype=np.int64)
    images, texts = np.unique(pairs_[:, 0]), np.unique(pairs_[:, 1])
    parts = []
    for name, outcome in outcomes.items():
        before, after = (0, len(texts)) if name.startswith(WAYS[0]) else (len(images), 0)
        weights = np.pad(np.ones(len(outcome.values)), (before, after))
        parts.append(mean_of(np.pad(outcome.values, (before, after)), weights))
    linked: list[list[int]] = [[] for _ in range(len(images) + len(texts))]
    rows = np.searchsorted(images, pairs_[:, 0])
    columns = len(images) + np.searchsorted(texts, pairs_[:, 1])
    for pair, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        linked[row].append(pair)
        linked[column].append(pair)
    return combine(parts), clusters_of(linked)


@dataclass(frozen=True, slots=True, eq=False)
class _Beaten:
    """How the best match of each query fares: how many wrong things score as high, or higher."""

    at_least: NDArray[np.int64]
    above: NDArray[np.int64]
    matches: NDArray[np.int64]


def _beaten(gallery: FloatArray, pairs: IntArray) -> tuple[_Beaten, _Beaten]:
    """For the images, then for the texts, in one pass over the scores."""
    n, m = gallery.shape
    own = wide(gallery[pairs[:, 0], pairs[:, 1]])
    best_text, best_image = np.full(n, np.inf, own.dtype), np.full(m, np.inf, own.dtype)
    for best, side in ((best_text, 0), (best_image, 1)):
        queries = pairs[:, side]
        best[queries] = -np.inf
        np.maximum.at(best, queries, own)
    texts = np.zeros((2, n), dtype=np.int64)
    images = np.zeros((2, m), dtype=np.int64)
    for rows, block in _blocks(gallery):
        texts[0, rows] = np.count_nonzero(block >= best_text[rows, None], axis=1)
        texts[1, rows] = np.count_nonzero(block > best_text[rows, None], axis=1)
        images[0] += np.count_nonzero(block >= best_image, axis=0)
        images[1] += np.count_nonzero(block > best_image, axis=0)
    found = []
    for counts, best, side in ((texts, best_text, 0), (images, best_image, 1)):
        queries = pairs[:, side]
        matches = np.bincount(queries, minlength=len(best))
        asked = matches > 0
        # No match scores above the best one; those that equal it are not wrong.
        equal = np.bincount(queries[own == best[queries]], minlength=len(best))
        found.append(_Beaten((counts[0] - equal)[asked], counts[1][asked], matches[asked]))
    return found[0], found[1]


def _blocks(gallery: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Rows of the gallery, a bounded number of scores at a time, in float32 or wider."""
    rows = max(1, CHUNK // gallery.shape[1])
    for start in range(0, len(gallery), rows):
        part = slice(start, start + rows)
        yield part, wide(gallery[part])


def _pairs(pairs: ArrayLike, shape: tuple[int, ...]) -> IntArray:
    array = np.asarray(pairs, dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or not len(array):
        raise InputError(f"pairs must be P × 2 with P ≥ 1, not {array.shape}.")
    if array.min() < 0 or (array >= np.array(shape)).any():
        raise InputError(f"a pair lies outside the gallery of {shape[0]} × {shape[1]}.")
    return np.unique(array, axis=0)
