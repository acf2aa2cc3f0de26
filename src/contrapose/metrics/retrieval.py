"""Ranking metrics: recall at k in a gallery, top-k classification, and SIMAT edit queries.

A query is a hit at k when fewer than k things that do not belong to it score as high as the best
one that does: among equals the wrong ones come first, so that ties are never wins.

The score is Σ μᵢ·1[oracle(Jᵢ, Tᵢ) > ½], μ normalized to one (Couairon et al., Embedding Arithmetic
of Multimodal Queries for Image Retrieval, 2022, equation 1); with n > 1 the best of the first n
images counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrapose.errors import InputError
from contrapose.metrics.statistics.resampling import clusters_of
from contrapose.metrics.statistics.statistic import Statistic, combine, mean_of
from contrapose.metrics.types import (
    FloatArray,
    IntArray,
    Outcome,
    binary_outcome,
    require_finite,
    widen,
)

CHUNK = 1 << 22
"""Scores compared at a time."""

WAYS = ("image_to_text", "text_to_image")


def recalls(
    scores: ArrayLike, pairs: ArrayLike, ks: Sequence[int] = (1, 5, 10)
) -> dict[str, Outcome]:
    """Recall at each k of every image among the texts and of every text among the images.

    Args:
        scores: (N, M) scores of every image with every text; may be memory-mapped.
        pairs: (P, 2) positions (image, text) that belong together, as many as there are.
        ks: cutoffs of the ranking.

    Returns:
        `image_to_text_r1` … `text_to_image_r10`, each with one value a query: the images (or texts)
        that have a match, in order. Distractors without a match are only competitors.

    Raises:
        InputError: a pair is outside the gallery, there is none, or a score is NaN.
    """
    gallery = np.asarray(scores)
    if gallery.ndim != 2:
        raise InputError(f"scores of a gallery must be N × M, not {gallery.shape}.")
    pairs_ = _check_pairs(pairs, gallery.shape)
    images, texts = _rank_matches(gallery, pairs_)
    named: dict[str, Outcome] = {}
    for way, queries, others in zip(WAYS, (images, texts), gallery.shape[::-1], strict=True):
        for k in ks:
            named[f"{way}_r{k}"] = binary_outcome(
                queries.at_least < k,
                (queries.above < k) & (queries.at_least >= k),
                recall_chance(others, queries.matches, k),
            )
    return named


def false_recalls(scores: ArrayLike, adversarial: ArrayLike) -> Outcome:
    """Whether the best text of every image is an adversarial one (RoCOCO's false recall).

    Args:
        scores: (N, M) scores of every image with every text; may be memory-mapped.
        adversarial: (M,) which texts are adversarial.

    Returns:
        One value an image: 1 where an adversarial text scores at least as high as all others;
        among equals it comes first, as ties are never wins.

    Raises:
        InputError: the arrays do not fit, all or none of the texts are adversarial, or a score is
            NaN.
    """
    gallery, mask = np.asarray(scores), np.asarray(adversarial, dtype=np.bool_)
    if gallery.ndim != 2 or mask.shape != gallery.shape[1:]:
        raise InputError(f"scores of shape {gallery.shape} and {mask.shape[0]} texts do not fit.")
    if not mask.any() or mask.all():
        raise InputError("some texts must be adversarial, and some must not.")
    best = np.empty((2, len(gallery)))
    for rows, block in _blocks(gallery):
        best[0, rows], best[1, rows] = block[:, ~mask].max(axis=1), block[:, mask].max(axis=1)
    return binary_outcome(best[1] >= best[0], best[1] == best[0], float(mask.mean()))


def recall_chance(others: int, matches: ArrayLike, k: int) -> float:
    """Chance level of recall at k: the best of g right items among `others` is in the first k.

    It is not when the first k are all wrong: C(M − g, k) of C(M, k) equally likely sets, hence
    1 − Π_{i<k} (M − g − i)/(M − i).
    """
    g = np.asarray(matches, dtype=np.float64)[:, None]
    i = np.arange(min(k, others))
    return float(1 - np.prod(np.maximum(others - g - i, 0) / (others - i), axis=1).mean())


def mean_recall(outcomes: Mapping[str, Outcome], pairs: ArrayLike) -> tuple[Statistic, IntArray]:
    """Mean of all recalls in both directions, and the clusters to resample it by.

    Image queries and text queries are different examples of one statistic; an image and its
    captions are drawn together.

    Args:
        outcomes: the result of `recalls`.
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
class _MatchRanks:
    """Rank of each query's best match: number of wrong items that score as high, or higher."""

    at_least: NDArray[np.int64]
    above: NDArray[np.int64]
    matches: NDArray[np.int64]


def _rank_matches(gallery: FloatArray, pairs: IntArray) -> tuple[_MatchRanks, _MatchRanks]:
    """Match ranks of the images, then of the texts, in one pass over the scores."""
    n, m = gallery.shape
    right = widen(gallery[pairs[:, 0], pairs[:, 1]])
    best_text, best_image = (
        np.full(n, np.inf, right.dtype),
        np.full(m, np.inf, right.dtype),
    )
    for best, side in ((best_text, 0), (best_image, 1)):
        queries = pairs[:, side]
        best[queries] = -np.inf
        np.maximum.at(best, queries, right)
    texts = np.zeros((2, n), dtype=np.int64)
    images = np.zeros((2, m), dtype=np.int64)
    for rows, block in _blocks(gallery):
        texts[0, rows] = np.count_nonzero(block >= best_text[rows, None], axis=1)
        texts[1, rows] = np.count_nonzero(block > best_text[rows, None], axis=1)
        images[0] += np.count_nonzero(block >= best_image, axis=0)
        images[1] += np.count_nonzero(block > best_image, axis=0)
    ranks = []
    for counts, best, side in ((texts, best_text, 0), (images, best_image, 1)):
        queries = pairs[:, side]
        matches = np.bincount(queries, minlength=len(best))
        queried = matches > 0
        # No match scores above the best one; those that equal it are not wrong.
        equal = np.bincount(queries[right == best[queries]], minlength=len(best))
        at_least, above = counts[0] - equal, counts[1]
        ranks.append(_MatchRanks(at_least[queried], above[queried], matches[queried]))
    return ranks[0], ranks[1]


def _blocks(gallery: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Blocks of gallery rows with a bounded number of scores, in float32 or wider."""
    rows = max(1, CHUNK // gallery.shape[1])
    for start in range(0, len(gallery), rows):
        part = slice(start, start + rows)
        yield part, widen(gallery[part])


def _check_pairs(pairs: ArrayLike, shape: tuple[int, ...]) -> IntArray:
    array = np.asarray(pairs, dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or not len(array):
        raise InputError(f"pairs must be P × 2 with P ≥ 1, not {array.shape}.")
    if array.min() < 0 or (array >= np.array(shape)).any():
        raise InputError(f"a pair lies outside the gallery of {shape[0]} × {shape[1]}.")
    return np.unique(array, axis=0)


def top_k(scores: ArrayLike, labels: ArrayLike, k: int = 1) -> Outcome:
    """Top-k accuracy: fewer than k other classes score as high as the right one; ties never win.

    Args:
        scores: (N, C) scores of every image with every class.
        labels: (N,) position of each image's right class.
        k: number of guesses. Chance k/C.

    Raises:
        InputError: a shape does not fit, a label is not a class, or a score is NaN.
    """
    array, right = np.asarray(scores), np.asarray(labels, dtype=np.int64)
    if array.ndim != 2 or right.shape != array.shape[:1]:
        raise InputError(f"{right.shape} labels do not fit scores of shape {array.shape}.")
    n, classes = array.shape
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}.")
    if n and not (right.min() >= 0 and right.max() < classes):
        raise InputError(f"labels must lie in 0 … {classes - 1}.")
    at_least, above = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    rows = max(1, CHUNK // max(1, classes))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        block = widen(array[part])
        correct = np.take_along_axis(block, right[part, None], axis=1)
        at_least[part] = np.count_nonzero(block >= correct, axis=1) - 1
        above[part] = np.count_nonzero(block > correct, axis=1)
    return binary_outcome(
        at_least < k, (above < k) & (at_least >= k), min(1.0, k / classes) if n else None
    )


SkipRule = Literal["always", "if first"]


def rank_edits(
    scores: ArrayLike, query_image: ArrayLike, n: int = 1, *, skip: SkipRule = "always"
) -> NDArray[np.int64]:
    """Rank the n best images for each edit query, best first, its own image left out.

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
    array, start = np.asarray(scores), np.asarray(query_image, dtype=np.int64)
    if array.ndim != 2 or start.shape != array.shape[:1]:
        raise InputError(f"{start.shape} query images do not fit scores of shape {array.shape}.")
    if skip not in ("always", "if first"):
        raise InputError(f"skip must be 'always' or 'if first', not {skip!r}.")
    queries, images = array.shape
    if not 1 <= n < images:
        raise InputError(f"n must be from 1 to {images - 1}, the images beside the query's own.")
    if queries and not (start.min() >= 0 and start.max() < images):
        raise InputError(f"query images must lie in 0 … {images - 1}.")
    ranked = np.empty((queries, n), dtype=np.int64)
    rows = max(1, CHUNK // images)
    for first in range(0, queries, rows):
        part = slice(first, first + rows)
        ranked[part] = _rank_block(require_finite(array[part], "scores"), start[part], n, skip)
    return ranked


def count_edit_rivals(
    scores: ArrayLike, query_image: ArrayLike, fits: ArrayLike, target: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the wrong images that keep the best right one of each edit query from the first place.

    A query is right at n if fewer than n wrong images score as high: ties never win. The query's
    image counts on neither side.

    Args:
        scores: (q, N) similarity of each edited query with each image of the database.
        query_image: (q,) position of the image that each query starts from.
        fits: (N, captions) whether an image fits a caption.
        target: (q,) caption that the answer must fit.

    Returns:
        (q,) wrong images that score at least as high as the best right one, and those above it;
        where no image is right, all others.

    Raises:
        InputError: a shape does not fit, or a score is not finite.
    """
    array, start = np.asarray(scores), np.asarray(query_image, dtype=np.int64)
    right, caption = np.asarray(fits, dtype=np.bool_), np.asarray(target, dtype=np.int64)
    if array.ndim != 2 or not start.shape == caption.shape == array.shape[:1]:
        raise InputError(f"{start.shape} query images do not fit scores of shape {array.shape}.")
    if right.ndim != 2 or len(right) != array.shape[1]:
        raise InputError(f"{array.shape[1]} images, but the oracle has the shape {right.shape}.")
    queries, images = array.shape
    at_least, above = np.empty(queries, dtype=np.int64), np.empty(queries, dtype=np.int64)
    rows = max(1, CHUNK // images)
    for first in range(0, queries, rows):
        part = slice(first, first + rows)
        block = require_finite(array[part], "scores")
        answer, wrong = right[:, caption[part]].T, ~right[:, caption[part]].T
        for side in (answer, wrong):
            side[np.arange(len(block)), start[part]] = False
        best = np.where(answer, block, -np.inf).max(axis=1, keepdims=True)
        at_least[part] = np.count_nonzero(wrong & (block >= best), axis=1)
        above[part] = np.count_nonzero(wrong & (block > best), axis=1)
    return at_least, above


def edit_chance(right: ArrayLike, images: int, n: int) -> FloatArray:
    """Chance that one of n images drawn from the database is right: 1 − C(M − r, n) / C(M, n).

    Args:
        right: (q,) number r of right images of each query.
        images: number M of images beside the query's own.
        n: how many answers count.
    """
    counts = np.asarray(right, dtype=np.float64)
    missed = np.ones_like(counts)
    for drawn in range(min(n, images)):
        missed *= np.maximum(images - counts - drawn, 0.0) / (images - drawn)
    return np.asarray(1.0 - missed)


def best_of(hits: ArrayLike, n: int) -> Outcome:
    """Whether any of the first n ranked images of each query is right.

    Args:
        hits: (q, at least n) whether the oracle takes each answer, best ranked first.
        n: how many answers count.
    """
    array = np.asarray(hits, dtype=np.bool_)
    if array.ndim != 2 or not 1 <= n <= array.shape[1]:
        raise InputError(f"the best of {n} cannot be taken from hits of shape {array.shape}.")
    hit = np.asarray(array[:, :n].any(axis=1))
    return binary_outcome(hit, np.zeros(len(array), dtype=np.bool_), None)


def simat_score(hits: ArrayLike, weights: ArrayLike, n: int = 1) -> Statistic:
    """SIMAT score: weighted share of queries with a right image among the first n.

    Args:
        hits: (q, at least n) whether the oracle takes each answer, best ranked first.
        weights: (q,) μ before normalization, 1/sqrt(norm2).
        n: how many answers count, 1 or 5 in the paper.
    """
    return mean_of(best_of(hits, n).values, weights)


def _rank_block(
    scores: FloatArray, start: NDArray[np.int64], n: int, skip: SkipRule
) -> NDArray[np.int64]:
    left = scores.copy()
    rows = np.arange(len(left))
    if skip == "always":
        left[rows, start] = -np.inf
    else:
        first = left.argmax(axis=1) == start
        left[rows[first], start[first]] = -np.inf
    ranked = np.empty((len(left), n), dtype=np.int64)
    for rank in range(n):
        ranked[:, rank] = left.argmax(axis=1)
        left[rows, ranked[:, rank]] = -np.inf
    return ranked
