"""Area under the ROC curve, and its bootstrap interval by reweighting."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.statistics.bootstrap import (
    BLOCK,
    RESAMPLES,
    limit_resamples,
    map_blocks,
    percentile_interval,
)
from contrapose.metrics.statistics.resampling import cluster_codes, draw_counts
from contrapose.metrics.statistics.statistic import divide
from contrapose.metrics.types import FloatArray, IntArray, require_shape, widen

WORK = 8
"""Passes over the examples that one resample costs, beside drawing it."""


def auroc(scores: ArrayLike, groups: ArrayLike | None = None) -> float:
    """AUROC: how often a right caption, of any example, beats a wrong one; a tie counts ½.

    The mean over all k × k pairs of a caption and a foil, computed from ranks. Chance ½.

    Args:
        scores: (k, 2) scores of captions and of foils.
        groups: (k,) codes from 0, −1 for what is not counted; the mean over groups of the area
            within each is then given.
    """
    pairs, parts = _rank_groups(scores, groups)
    return float(_mean_area(parts, np.ones((1, len(pairs))))[0])


def auroc_interval(
    scores: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    clusters: IntArray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of the AUROC; examples, or clusters of them, are drawn together.

    Arguments are those of `auroc` and of `bootstrap.replicates`.
    """
    pairs, parts = _rank_groups(scores, groups)
    if not len(pairs):
        return float("nan"), float("nan")
    codes, units = cluster_codes(clusters, len(pairs))

    def areas(rng: np.random.Generator, rows: int) -> FloatArray:
        counts = draw_counts(rng, units, rows).astype(np.float64)
        return _mean_area(parts, counts if codes is None else counts[:, codes])

    resamples = limit_resamples(WORK * len(pairs), resamples)
    blocks = map_blocks(areas, rows=BLOCK // (WORK * len(pairs)), resamples=resamples, seed=seed)
    return percentile_interval(np.concatenate(blocks), level)


class _GroupRanks:
    """Examples of one group: foils sorted, and the rank of each caption among them."""

    def __init__(self, members: IntArray, pairs: FloatArray):
        captions, foils = pairs[members].T
        order = np.argsort(foils)
        self._captions = members
        self._foils = members[order]
        self._below = np.searchsorted(foils[order], captions, side="left")
        self._not_above = np.searchsorted(foils[order], captions, side="right")

    def area(self, weights: FloatArray) -> FloatArray:
        """(r,) AUROC of the group with the examples weighted by each row of `weights` (r, k)."""
        reached = np.zeros((len(weights), len(self._foils) + 1))
        np.cumsum(weights[:, self._foils], axis=1, out=reached[:, 1:])
        beaten = (reached[:, self._below] + reached[:, self._not_above]) / 2
        won = (weights[:, self._captions] * beaten).sum(axis=1)
        return divide(won, reached[:, -1] ** 2)


def _mean_area(parts: list[_GroupRanks], weights: FloatArray) -> FloatArray:
    """(r,) mean AUROC over the groups that have weight."""
    if not parts:
        return np.full(len(weights), np.nan)
    areas = np.stack([part.area(weights) for part in parts], axis=1)
    alive = ~np.isnan(areas)
    return divide(np.where(alive, areas, 0.0).sum(axis=1), alive.sum(axis=1))


def _rank_groups(
    scores: ArrayLike, groups: ArrayLike | None
) -> tuple[FloatArray, list[_GroupRanks]]:
    pairs = require_shape(widen(scores), (None, 2), "scores of captions and foils")
    codes = np.zeros(len(pairs), dtype=np.int64) if groups is None else np.asarray(groups)
    if codes.shape != (len(pairs),):
        raise InputError(f"{len(pairs)} examples but {codes.shape} group codes.")
    members = (np.flatnonzero(codes == code) for code in np.unique(codes[codes >= 0]))
    return pairs, [_GroupRanks(each, pairs) for each in members]
