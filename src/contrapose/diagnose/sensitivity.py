"""How much a model reacts when a pattern changes: the fourteen metrics with their statistics.

A metric's mean is over comparisons (see `comparisons`), and so are ρ and the accuracy beside it.
Intervals are percentile intervals of a bootstrap that draws images, with all comparisons that share
them. Nothing here is ever NaN: what is undefined is None, with a note that says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from contrapose.diagnose.comparisons import Comparisons, compare_played
from contrapose.diagnose.fourteen import FAMILIES, Family, Pattern, Side
from contrapose.diagnose.played import Played
from contrapose.metrics import Statistic, correlation_of, intervals, mean_of
from contrapose.metrics.dividends import pattern_mask
from contrapose.metrics.statistics.bootstrap import RESAMPLES

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """One metric of one model.

    Attributes:
        key: one of `fourteen.KEYS`.
        side: where it is reported.
        count: comparisons that have the metric's players.
        examples: examples these come from.
        mean: mean sensitivity; None when there is none.
        ci95: its interval.
        rho: Pearson correlation of the reward's difference with the dividend's.
        rho_ci95: its interval.
        accuracy: share of the same comparisons in which right scores above wrong; a tie is wrong.
        accuracy_ci95: its interval.
        notes: why something is None or left out, a sentence each.
    """

    key: str
    side: Side
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
    """All fourteen metrics of one model, and the comparisons they are made of.

    Attributes:
        metrics: by key, always all fourteen; one without comparisons has the count 0 and a note.
        comparisons: by the name of the family.
    """

    metrics: Mapping[str, Sensitivity]
    comparisons: Mapping[str, Comparisons]


def diagnose_played(
    played: Sequence[Played], *, resamples: int = RESAMPLES, seed: int = 0
) -> Diagnosis:
    """Measure games that were played.

    Args:
        played: blocks of games of one model; an example stands in one block.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        InputError: a score is infinite.
    """
    comparisons = {family.name: compare_played(played, family) for family in FAMILIES}
    metrics = {
        one.key: one
        for family in FAMILIES
        for one in _measured(comparisons[family.name], played, resamples, seed)
    }
    return Diagnosis(metrics, comparisons)


def _measured(
    compared: Comparisons, played: Sequence[Played], resamples: int, seed: int
) -> list[Sensitivity]:
    patterns = compared.family.patterns
    statistics = [one for place in range(len(patterns)) for one in _statistics(compared, place)]
    found = [_known(statistic.value()) for statistic in statistics]
    drawn: list[Range | None] = []
    if compared.ids:
        bounds = intervals(statistics, clusters=compared.clusters, resamples=resamples, seed=seed)
        drawn = [None if math.isnan(low) else (low, high) for low, high in bounds]
    measured = []
    for place, pattern in enumerate(patterns):
        there = compared.there[:, place]
        mean, rho, right = found[3 * place : 3 * place + 3]
        several = np.unique(compared.clusters[there]).size > 1
        ci, rho_ci, right_ci = drawn[3 * place : 3 * place + 3] if several else [None] * 3
        measured.append(
            Sensitivity(
                pattern.key,
                compared.family.side,
                int(there.sum()),
                len({compared.ids[row] for row in np.flatnonzero(there)}),
                mean,
                None if mean is None else ci,
                rho,
                None if rho is None else rho_ci,
                right,
                None if right is None else right_ci,
                tuple(_notes(compared, place, rho, played)),
            )
        )
    return measured


def _statistics(compared: Comparisons, place: int) -> tuple[Statistic, Statistic, Statistic]:
    """Mean sensitivity, ρ and accuracy of one pattern, over the comparisons that have it."""
    sensitivity = compared.sensitivities[:, place]
    defined = ~np.isnan(sensitivity)
    difference = compared.dividend_differences[:, place]
    there = (~np.isnan(difference)).astype(np.float64)
    reward = compared.reward_differences
    return (
        mean_of(np.where(defined, sensitivity, 0.0), defined.astype(np.float64)),
        correlation_of(reward, np.nan_to_num(difference), there),
        mean_of((reward > 0).astype(np.float64), there),
    )


def _notes(
    compared: Comparisons, place: int, rho: float | None, played: Sequence[Played]
) -> list[str]:
    pattern = compared.family.patterns[place]
    there = compared.there[:, place]
    if not there.any():
        return [_why_absent(compared.family, pattern, played)]
    notes = []
    idle = int((there & np.isnan(compared.sensitivities[:, place])).sum())
    if idle:
        notes.append(
            f"{idle} of {int(there.sum())} comparisons are not in the mean: no pattern has any "
            "effect on their scores."
        )
    if rho is None:
        still = "dividend" if compared.reward_differences[there].std() > 0 else "score"
        notes.append(f"ρ is undefined: the differences of the {still} do not vary.")
    if np.unique(compared.clusters[there]).size < 2:
        notes.append("no interval: all comparisons share one image.")
    return notes


def _why_absent(family: Family, pattern: Pattern, played: Sequence[Played]) -> str:
    able = [
        block
        for block in played
        if block.ids
        and _has(block.image_players, pattern.image)
        and _has(block.text_players, pattern.text)
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


def _has(players: tuple[str, ...], pattern: str | None) -> bool:
    return pattern is None or pattern_mask(players, pattern) is not None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
