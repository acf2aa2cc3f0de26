"""Audit of a benchmark by blind scores: can it be solved without the images?

Any score of the captions alone (a language model, the model's own prior, the length) is taken as if
it were a score of the pair. A set whose right captions such a score finds better than chance
measures the captions as much as the model (Lin et al., Revisiting the Role of Language Priors,
2024, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.pairs import accuracy
from contrapose.metrics.statistics.bootstrap import RESAMPLES, interval
from contrapose.metrics.statistics.statistic import mean_of
from contrapose.metrics.types import BoolArray, FloatArray, IntArray, Outcome, widen


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Histogram of the blind scores of right and of wrong captions, on common edges.

    Attributes:
        edges: (bins + 1,).
        right: (bins,) number of right captions.
        wrong: (bins,) number of wrong captions.
    """

    edges: FloatArray
    right: IntArray
    wrong: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    """Audit by one blind score: its accuracy, interval and histogram.

    Attributes:
        outcome: its accuracy on each example, ties wrong, with the chance level.
        ci95: interval of the accuracy.
        solvable_blind: the interval lies above chance.
        histogram: of the scores.
    """

    outcome: Outcome
    ci95: tuple[float, float]
    solvable_blind: bool
    histogram: Histogram


def audit(
    scores: ArrayLike,
    match: ArrayLike,
    present: ArrayLike | None = None,
    *,
    clusters: IntArray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    bins: int = 40,
) -> Audit:
    """Audit a set of one image with n captions by a blind score of the captions.

    Args:
        scores: (k, n) or (k, 1, n) scores of the captions, such as log P(T).
        match: which captions are right, shaped alike or (n,) for all.
        present: which captions stand, shaped as `match`; None means all.
        clusters: (k,) examples with one code are drawn together.
        resamples: of the bootstrap.
        seed: of the bootstrap.
        bins: of the histogram.
    """
    blind = _caption_rows(scores)
    right = np.broadcast_to(_caption_rows(match, one=True).astype(np.bool_), blind.shape)
    standing = np.ones(blind.shape, dtype=np.bool_)
    if present is not None:
        standing = np.broadcast_to(_caption_rows(present, one=True).astype(np.bool_), blind.shape)
    outcome = accuracy(blind[:, None], right[:, None], standing[:, None])
    ci95 = interval(mean_of(outcome.values), clusters=clusters, resamples=resamples, seed=seed)
    return Audit(
        outcome, ci95, solvable_blind(ci95, outcome.chance), histogram(blind, right, standing, bins)
    )


def solvable_blind(ci95: tuple[float, float] | None, chance: float | None) -> bool:
    """Whether the lower end of an interval of a blind accuracy is above chance."""
    return chance is not None and ci95 is not None and ci95[0] > chance


def histogram(
    scores: ArrayLike, match: ArrayLike, present: ArrayLike | None = None, bins: int = 40
) -> Histogram:
    """Histograms of right and of wrong captions' scores on common edges.

    Infinite scores fall into the outermost bins.

    Args:
        scores: any shape.
        match: shaped alike, true for right captions.
        present: shaped alike; None means all.
        bins: how many.
    """
    shape = np.shape(scores)
    right = np.broadcast_to(np.asarray(match, dtype=np.bool_), shape)
    standing: BoolArray = np.ones(shape, dtype=np.bool_)
    if present is not None:
        standing = np.broadcast_to(np.asarray(present, dtype=np.bool_), shape)
    values = widen(scores, present=standing).astype(np.float64)
    known = values[standing & np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    least = bins * np.spacing(max(abs(low), abs(high), np.finfo(np.float64).tiny))
    if not 2 * least <= high - low < np.inf:  # edges would fall together, or overflow
        low, high = low / 2 + high / 2 - max(0.5, least), low / 2 + high / 2 + max(0.5, least)
    edges = np.linspace(low, high, bins + 1)
    clipped = np.clip(values, edges[0], edges[-1])
    counts = [np.histogram(clipped[standing & side], bins=edges)[0] for side in (right, ~right)]
    return Histogram(edges, counts[0], counts[1])


def _caption_rows(cells: ArrayLike, *, one: bool = False) -> FloatArray:
    """Array (k, n) from (k, n) or (k, 1, n); (n,) too where one row may stand for all."""
    array = np.asarray(cells)
    if array.ndim == 3 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 2 and not (one and array.ndim == 1):
        raise InputError(f"an audit needs one image with n captions, not shape {array.shape}.")
    return array
