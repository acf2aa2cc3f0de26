"""Sensitivities: the fourteen metrics with their statistics, from comparisons of right and wrong.

On the text side every image of an example is compared with each of its right captions against each
of its wrong ones; on the image side every caption with each of its right images against each of its
wrong ones. An example of 2 × 2 gives two comparisons per side, one of 1 × 2 gives one comparison on
the text side and none on the image side. The right one always comes first.

Means, ρ and accuracy are over comparisons. Intervals are percentile intervals of a bootstrap over
images, with all comparisons that share them. Nothing is ever NaN: an undefined value is None, with
a note that gives the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.metrics import FAMILIES, Exchange, MetricFamily, MetricPattern, MetricSide
from contrapose.metrics import (
    BoolArray,
    FloatArray,
    IntArray,
    Statistic,
    clusters_of,
    correlation_of,
    intervals,
    mean_of,
)
from contrapose.metrics.dividends import dividends, moebius, pattern_mask
from contrapose.metrics.statistics.bootstrap import RESAMPLES
from contrapose.metrics.statistics.shares import FEWEST_UNITS

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
        dividends: (c, 2, p) the patterns' dividends; NaN where the example lacks their players.
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
        """(c, p) whether the example has the pattern's players."""
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
        w: dividends; NaN for patterns whose players an example lacks.
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


Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Sensitivity metric of one model, with its statistics.

    Attributes:
        key: one of `METRIC_KEYS`.
        side: the side it is reported under.
        count: comparisons that have the metric's players.
        examples: examples these come from.
        mean: mean sensitivity; None where it is undefined.
        ci95: its 95 % interval.
        rho: Pearson correlation of the reward's difference with the dividend's.
        rho_ci95: its interval.
        accuracy: share of the same comparisons in which right scores above wrong; a tie is wrong.
        accuracy_ci95: its interval.
        notes: reasons why a value is None or a comparison is left out, one sentence each.
    """

    key: str
    side: MetricSide
    count: int
    examples: int
    mean: float | None
    ci95: Range | None
    rho: float | None
    rho_ci95: Range | None
    accuracy: float | None
    accuracy_ci95: Range | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """All fourteen metrics of one model, with the comparisons they are computed from.

    Attributes:
        metrics: by key, always all fourteen; one without comparisons has the count 0 and a note.
        comparisons: by the name of the family.
    """

    metrics: Mapping[str, Sensitivity]
    comparisons: Mapping[str, Comparisons]


def diagnose_blocks(
    blocks: Sequence[GameBlock], *, resamples: int = RESAMPLES, seed: int = 0
) -> Diagnosis:
    """Compute all fourteen metrics from blocks of games.

    Args:
        blocks: games of one model; each example stands in one block.
        resamples: number of bootstrap resamples.
        seed: seed of the bootstrap.

    Raises:
        InputError: a score is infinite.
    """
    comparisons = {family.name: build_comparisons(blocks, family) for family in FAMILIES}
    metrics = {
        one.key: one
        for family in FAMILIES
        for one in _measure_family(comparisons[family.name], blocks, resamples, seed)
    }
    return Diagnosis(metrics, comparisons)


def _measure_family(
    compared: Comparisons, blocks: Sequence[GameBlock], resamples: int, seed: int
) -> list[Sensitivity]:
    patterns = compared.family.patterns
    statistics = [
        one for column in range(len(patterns)) for one in _pattern_statistics(compared, column)
    ]
    values = [_none_if_nan(statistic.value()) for statistic in statistics]
    bounds: list[Range | None] = []
    if compared.ids:
        drawn = intervals(statistics, clusters=compared.clusters, resamples=resamples, seed=seed)
        bounds = [None if math.isnan(low) else (low, high) for low, high in drawn]
    measured = []
    for column, pattern in enumerate(patterns):
        present = compared.present[:, column]
        mean, rho, right = values[3 * column : 3 * column + 3]
        several = np.unique(compared.clusters[present]).size >= FEWEST_UNITS
        ci, rho_ci, right_ci = bounds[3 * column : 3 * column + 3] if several else [None] * 3
        measured.append(
            Sensitivity(
                pattern.key,
                compared.family.side,
                int(present.sum()),
                len({compared.ids[row] for row in np.flatnonzero(present)}),
                mean,
                None if mean is None else ci,
                rho,
                None if rho is None else rho_ci,
                right,
                None if right is None else right_ci,
                tuple(_pattern_notes(compared, column, rho, blocks)),
            )
        )
    return measured


def _pattern_statistics(
    compared: Comparisons, column: int
) -> tuple[Statistic, Statistic, Statistic]:
    """Mean sensitivity, ρ and accuracy of one pattern, over the comparisons that have it."""
    sensitivity = compared.sensitivities[:, column]
    defined = ~np.isnan(sensitivity)
    difference = compared.dividend_differences[:, column]
    present = (~np.isnan(difference)).astype(np.float64)
    reward = compared.reward_differences
    return (
        mean_of(np.where(defined, sensitivity, 0.0), defined.astype(np.float64), share=False),
        correlation_of(reward, np.nan_to_num(difference), present),
        mean_of((reward > 0).astype(np.float64), present),
    )


def _pattern_notes(
    compared: Comparisons, column: int, rho: float | None, blocks: Sequence[GameBlock]
) -> list[str]:
    pattern = compared.family.patterns[column]
    present = compared.present[:, column]
    if not present.any():
        return [_absence_reason(compared.family, pattern, blocks)]
    notes = []
    idle = int((present & np.isnan(compared.sensitivities[:, column])).sum())
    if idle:
        notes.append(
            f"{idle} of {int(present.sum())} comparisons are not in the mean: no pattern has any "
            "effect on their scores."
        )
    if rho is None:
        still = "dividend" if compared.reward_differences[present].std() > 0 else "score"
        notes.append(f"ρ is undefined: the differences of the {still} do not vary.")
    images = np.unique(compared.clusters[present]).size
    if images < FEWEST_UNITS:
        share = "all comparisons share one image" if images == 1 else f"there are {images} images"
        notes.append(f"no interval: {share}, fewer than {FEWEST_UNITS}.")
    return notes


def _absence_reason(
    family: MetricFamily, pattern: MetricPattern, blocks: Sequence[GameBlock]
) -> str:
    able = [
        block
        for block in blocks
        if block.ids
        and _has_pattern(block.image_players, pattern.image)
        and _has_pattern(block.text_players, pattern.text)
    ]
    if not able:
        return f"no example has the players {pattern.players}."
    matches = [
        block.match if family.exchanged == "captions" else block.match.transpose(0, 2, 1)
        for block in able
    ]
    if not any((match.any(axis=2) & ~match.all(axis=2)).any() for match in matches):
        return f"no example has both right and wrong {family.exchanged}."
    return "its scores were not asked."


def _has_pattern(players: tuple[str, ...], pattern: str | None) -> bool:
    return pattern is None or pattern_mask(players, pattern) is not None


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value
