"""Sensitivities: the fourteen metrics with their statistics, from comparisons of right and wrong.

Means, ρ and accuracy are over comparisons. Intervals are percentile intervals of a bootstrap over
images, with all comparisons that share them. Nothing is ever NaN: an undefined value is None, with
a note that gives the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.diagnose.comparisons import Comparisons, build_comparisons
from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.metrics import FAMILIES, MetricFamily, MetricPattern, MetricSide
from contrapose.metrics import Statistic, correlation_of, intervals, mean_of
from contrapose.metrics.statistics.bootstrap import RESAMPLES
from contrapose.metrics.statistics.shares import FEWEST_UNITS

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
    able = [block for block in blocks if block.has_pattern(pattern.image, pattern.text).any()]
    if not able:
        return f"no example has the players {pattern.players}."
    matches = [
        block.match if family.exchanged == "captions" else block.match.transpose(0, 2, 1)
        for block in able
    ]
    if not any((match.any(axis=2) & ~match.all(axis=2)).any() for match in matches):
        return f"no example has both right and wrong {family.exchanged}."
    return "its scores were not asked."


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value
