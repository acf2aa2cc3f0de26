"""Comparisons of right with wrong: dividends of the patterns of one metric family, and Z.

On the text side every image of an example is compared with each of its right captions against each
of its wrong ones; on the image side every caption with each of its right images against each of its
wrong ones. An example of 2 × 2 gives two comparisons per side, one of 1 × 2 gives one comparison on
the text side and none on the image side. The right one always comes first.

A pattern whose players only one of the two has counts, with dividend 0 in the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.metrics import Exchange, MetricFamily, MetricPattern
from contrapose.metrics import BoolArray, FloatArray, IntArray, clusters_of
from contrapose.metrics.dividends import dividends, moebius, pattern_mask

NO_EFFECT = 1e-12
"""Dividends below this share of the largest value are rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparisons:
    """Comparisons of right with wrong in one metric family: c comparisons, p patterns each.

    Attributes:
        family: the metric family.
        ids: (c,) the example of each comparison.
        kept: (c,) position of the image (or caption) that is compared with both.
        right: (c,) the right caption (or image).
        wrong: (c,) the wrong one.
        clusters: (c,) codes; comparisons that share an image, directly or through others, have one.
        rewards: (c, 2) the score of right and wrong with all players present.
        dividends: (c, 2, p) the patterns' dividends: 0 where one of the two lacks a player, NaN
            where both lack one.
        sensitivities: (c, p) |w(right) − w(wrong)|² / Z, Z the mean of w² over both and over the
            patterns present. NaN also where Z is 0: no pattern has any effect.
    """

    family: MetricFamily
    ids: tuple[str, ...]
    kept: IntArray
    right: IntArray
    wrong: IntArray
    clusters: IntArray
    rewards: FloatArray
    dividends: FloatArray
    sensitivities: FloatArray

    @property
    def reward_differences(self) -> FloatArray:
        """(c,) score of right minus score of wrong."""
        return np.asarray(self.rewards[:, 0] - self.rewards[:, 1])

    @property
    def dividend_differences(self) -> FloatArray:
        """(c, p) dividend with right minus dividend with wrong."""
        return np.asarray(self.dividends[:, 0] - self.dividends[:, 1])

    @property
    def present(self) -> BoolArray:
        """(c, p) whether right or wrong has the pattern's players."""
        return np.asarray(~np.isnan(self.dividends).any(axis=1))

    @property
    def rows(self) -> list[tuple[str, int, int, int]]:
        """Key of each comparison: example, kept, right, wrong."""
        positions = np.stack([self.kept, self.right, self.wrong], axis=1).tolist()
        return [(id_, *row) for id_, row in zip(self.ids, positions, strict=True)]

    def by_example(self, key: str) -> dict[str, float]:
        """Mean sensitivity per example over its comparisons; undefined ones are omitted."""
        values = self.sensitivities[:, self.family.keys.index(key)]
        by_id: dict[str, list[float]] = {}
        for id_, value in zip(self.ids, values.tolist(), strict=True):
            if not math.isnan(value):
                by_id.setdefault(id_, []).append(value)
        return {id_: sum(some) / len(some) for id_, some in by_id.items()}


def build_comparisons(blocks: Sequence[GameBlock], family: MetricFamily) -> Comparisons:
    """Build the comparisons of one family over all blocks; unscored ones are left out."""
    clusters = _cluster_codes(blocks)
    parts = [
        _compare_block(block, family, codes) for block, codes in zip(blocks, clusters, strict=True)
    ]
    return _concatenate(parts, family)


def _cluster_codes(blocks: Sequence[GameBlock]) -> list[IntArray]:
    codes = clusters_of([images for block in blocks for images in block.images])
    ends = np.cumsum([len(block.ids) for block in blocks])
    return np.split(codes, ends[:-1]) if blocks else []


def _compare_block(block: GameBlock, family: MetricFamily, clusters: IntArray) -> Comparisons:
    example, kept, right, wrong = _comparison_indices(block, family.exchanged)
    scores = block.values[..., -1, -1]
    by_pattern = _pattern_dividends(block, family.patterns)
    cells = (
        [(example, kept, right), (example, kept, wrong)]
        if family.exchanged == "captions"
        else [(example, right, kept), (example, wrong, kept)]
    )
    rewards = np.stack([scores[cell] for cell in cells], axis=1)
    w = np.stack([by_pattern[cell] for cell in cells], axis=1)
    has = np.stack([block.has_pattern(one.image, one.text) for one in family.patterns], axis=-1)
    w[np.broadcast_to(~(has[cells[0]] | has[cells[1]])[:, None], w.shape)] = np.nan
    largest = np.maximum(*(_largest_magnitude(block.values)[cell] for cell in cells))
    missing = np.isnan(w).any(axis=1)
    known = ~(np.isnan(rewards).any(axis=1) | np.all(missing, axis=1))
    return Comparisons(
        family,
        tuple(block.ids[row] for row in example[known]),
        kept[known],
        right[known],
        wrong[known],
        clusters[example[known]],
        rewards[known],
        w[known],
        compute_sensitivities(w[known], largest[known]),
    )


def _comparison_indices(
    block: GameBlock, exchanged: Exchange
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Indices of example, kept, right and wrong of every comparison, in the order of examples."""
    match = block.match if exchanged == "captions" else block.match.transpose(0, 2, 1)
    chosen = match[:, :, :, None] & ~match[:, :, None, :]
    example, kept, right, wrong = np.nonzero(chosen)
    return example, kept, right, wrong


def _pattern_dividends(block: GameBlock, patterns: Iterable[MetricPattern]) -> FloatArray:
    """(k, m, n, p) dividends of the patterns in every cell; NaN where players are missing."""
    tables: dict[tuple[bool, bool], FloatArray] = {}
    columns: list[FloatArray] = []
    for pattern in patterns:
        image = _pattern_index(block.image_players, pattern.image)
        text = _pattern_index(block.text_players, pattern.text)
        if image is None or text is None:
            columns.append(np.full(block.values.shape[:3], np.nan))
            continue
        kind = (pattern.image is None, pattern.text is None)
        if kind not in tables:
            tables[kind] = _dividend_table(block.values, *kind)
        columns.append(tables[kind][..., image, text])
    return np.stack(columns, axis=-1)


def _dividend_table(values: FloatArray, all_regions: bool, all_words: bool) -> FloatArray:
    """Dividends (k, m, n, ·, ·) with all regions, all words, or neither held present."""
    if all_regions:
        return moebius(values[..., -1, :])[..., None, :]
    if all_words:
        return moebius(values[..., :, -1])[..., :, None]
    return dividends(values)


def _pattern_index(players: tuple[str, ...], pattern: str | None) -> int | None:
    """Index of a pattern in its table; an axis with nothing hidden has length 1."""
    return 0 if pattern is None else pattern_mask(players, pattern)


def _largest_magnitude(values: FloatArray) -> FloatArray:
    """(k, m, n) largest magnitude of each game's values."""
    known = np.where(np.isnan(values), 0.0, values)
    return np.asarray(np.abs(known).max(axis=(-2, -1)))


def compute_sensitivities(w: FloatArray, largest: FloatArray) -> FloatArray:
    """(c, p) sensitivities from the dividends (c, 2, p) of right and wrong.

    Args:
        w: dividends; NaN for patterns whose players both lack.
        largest: (c,) largest magnitude among the games' values; dividends far below it are
            rounding.
    """
    present = ~np.isnan(w).any(axis=1)
    squares = np.where(present, (np.nan_to_num(w) ** 2).sum(axis=1), 0.0)
    counted = 2 * present.sum(axis=1)
    z = np.divide(squares.sum(axis=1), counted, out=np.zeros(len(w)), where=counted > 0)
    effect = z > (NO_EFFECT * largest) ** 2
    change = (w[:, 0] - w[:, 1]) ** 2
    known = present & effect[:, None]
    result = np.full(change.shape, np.nan)
    np.divide(change, z[:, None], out=result, where=known)
    return result


def _concatenate(parts: Sequence[Comparisons], family: MetricFamily) -> Comparisons:
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        p = len(family.patterns)
        empty = np.zeros((0, 2, p))
        return Comparisons(
            family, (), none, none, none, none, np.zeros((0, 2)), empty, np.zeros((0, p))
        )
    return Comparisons(
        family,
        tuple(id_ for part in parts for id_ in part.ids),
        np.concatenate([part.kept for part in parts]),
        np.concatenate([part.right for part in parts]),
        np.concatenate([part.wrong for part in parts]),
        np.concatenate([part.clusters for part in parts]),
        np.concatenate([part.rewards for part in parts]),
        np.concatenate([part.dividends for part in parts]),
        np.concatenate([part.sensitivities for part in parts]),
    )
