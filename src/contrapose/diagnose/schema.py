"""Versioned schema of a diagnosis (file and --json), and conversion of measurements to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from contrapose.diagnose.findings import Finding, ModelDifference, PairedTest, Verdict
from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.games import GameSide
from contrapose.diagnose.metrics import MetricSide
from contrapose.diagnose.sensitivity import Diagnosis
from contrapose.metrics import FloatArray
from contrapose.metrics.dividends import moebius
from contrapose.results.schema import SchemaModel

DIAGNOSIS_VERSION: Literal[1] = 1

Range = tuple[float, float]


class SensitivityValue(SchemaModel):
    """Value of one of the fourteen metrics.

    Attributes:
        side: text, image or mutual.
        value: mean sensitivity; null when there is none.
        ci95: 95 % percentile bootstrap interval, drawn by image.
        rho: Pearson correlation of the score's difference with the dividend's.
        rho_ci95: its interval.
        n: comparisons of right with wrong that have the metric's players.
        examples: examples they come from.
        accuracy: share of the same comparisons in which right scores above wrong.
        accuracy_ci95: its interval.
        notes: why something is null or left out.
    """

    side: MetricSide
    value: float | None
    ci95: Range | None
    rho: float | None
    rho_ci95: Range | None
    n: int
    examples: int
    accuracy: float | None
    accuracy_ci95: Range | None
    notes: tuple[str, ...] = ()


class PairedValue(SchemaModel):
    """Paired test of two mean sensitivities.

    Attributes:
        metric: what is compared with.
        first: its mean.
        second: mean of what is compared.
        difference: second − first.
        ci95: its interval.
        p_holm: two-sided, corrected over all tests of its kind.
    """

    metric: str
    first: float
    second: float
    difference: float
    ci95: Range
    p_holm: float


class FindingValue(SchemaModel):
    """Verdict on whether an interaction dominates its parts.

    Attributes:
        side: text, image or mutual.
        interaction: its metric.
        verdict: "dominates", "does not dominate", "undecided" or "absent".
        share: of the three mean sensitivities; about one half for scores that are noise.
        n: comparisons tested.
        examples: examples they come from.
        tests: against each part.
        sentence: all this in words.
    """

    side: MetricSide
    interaction: str
    verdict: Verdict
    share: float | None
    n: int
    examples: int
    tests: tuple[PairedValue, ...]
    sentence: str


class DifferenceValue(SchemaModel):
    """Difference of two models.

    Attributes:
        models: the two.
        n: comparisons that both have, at most over the metrics.
        tests: by metric, second model − first.
        sentence: all this in words.
    """

    models: tuple[str, str]
    n: int
    tests: tuple[PairedValue, ...]
    sentence: str


class LeftOutValue(SchemaModel):
    """Example that was not played, or not by all players, with the reason."""

    example: str
    reason: str


class Counts(SchemaModel):
    """Cost of the games.

    Attributes:
        games: that were played.
        cells: scores they are made of.
        encodings: images and captions that were encoded (dual encoders).
        pairs: pairs that were scored one by one (other models).
        naive: the same, if every cell were asked anew.
    """

    games: int
    cells: int
    encodings: int
    pairs: int
    naive: int


class OrderShares(SchemaModel):
    """Shares of a model's scores by size of coalition.

    Attributes:
        side: text (all regions present) or image (all words present).
        players: number of players of these games.
        games: how many of them.
        shares: of Σ|w| over coalitions that are not empty, by their size from 1; means of games.
    """

    side: MetricSide
    players: int
    games: int
    shares: tuple[float, ...]


class ModelDiagnosis(SchemaModel):
    """Diagnosis of one model.

    Attributes:
        model: its name.
        score: what it was asked for.
        fingerprint: of exactly these weights.
        examples: that were played.
        metrics: the asked sides' metrics over all examples, by key.
        parts: the same for each part of a suite.
        kinds: the same for each kind of change: objects change places, attributes change hands,
            the things stay the same; findings are about these.
        findings: whether the interactions dominate.
        equivariance: of the 2 × 2 examples, in standard deviations of the score.
        orders: shares by size of coalition.
        counts: what it took.
        left_out: what was not played, and why.
        notes: what a reader should know.
    """

    model: str
    score: str
    fingerprint: str
    examples: int
    metrics: dict[str, SensitivityValue]
    parts: dict[str, dict[str, SensitivityValue]]
    kinds: dict[str, dict[str, SensitivityValue]]
    findings: tuple[FindingValue, ...]
    equivariance: dict[str, float] | None
    orders: tuple[OrderShares, ...]
    counts: Counts
    left_out: tuple[LeftOutValue, ...]
    notes: tuple[str, ...] = ()


class DiagnosisReport(SchemaModel):
    """Output of `contrapose diagnose`.

    Attributes:
        schema_version: version of this shape.
        contrapose: version of the program.
        benchmark: its name.
        parts: the parts that were diagnosed; empty where there are none.
        examples: examples that were chosen.
        side: what was asked.
        players: groups, words or superpixels.
        words: where word groups come from; null where words do not play.
        regions: where regions come from; null where they do not play.
        baseline: how words and regions are hidden, by name.
        baseline_words: the same in words.
        preset: of the authors' script; null without.
        resamples: of the bootstrap.
        seed: of everything random.
        models: what was found in each.
        differences: where models differ, each with the first.
        notes: what a reader should know.
    """

    schema_version: Literal[1] = DIAGNOSIS_VERSION
    contrapose: str
    benchmark: str
    parts: tuple[str, ...]
    examples: int
    side: Literal["text", "image", "mutual", "all"]
    players: Literal["groups", "words", "superpixels"]
    words: str | None
    regions: str | None
    baseline: dict[str, str]
    baseline_words: str
    preset: str | None
    resamples: int
    seed: int
    models: tuple[ModelDiagnosis, ...]
    differences: tuple[DifferenceValue, ...] = ()
    notes: tuple[str, ...] = ()


def order_shares(played: Sequence[GameBlock]) -> tuple[OrderShares, ...]:
    """Shares of Σ|w| by size of coalition, for each side and number of players."""
    found: dict[tuple[MetricSide, int], list[FloatArray]] = {}
    for block in played:
        games = block.values.reshape(-1, *block.values.shape[3:])
        if block.text_players:
            found.setdefault(("text", len(block.text_players)), []).append(games[:, -1, :])
        if block.image_players:
            found.setdefault(("image", len(block.image_players)), []).append(games[:, :, -1])
    return tuple(
        OrderShares(
            side=side, players=players, games=len(known), shares=_mean_shares(known, players)
        )
        for (side, players), parts in sorted(found.items(), key=lambda item: item[0][::-1])
        if len(known := _complete_games(np.concatenate(parts)))
    )


def _complete_games(games: FloatArray) -> FloatArray:
    return games[~np.isnan(games).any(axis=1)]


def _mean_shares(games: FloatArray, players: int) -> tuple[float, ...]:
    sizes = np.array([mask.bit_count() for mask in range(1 << players)])
    magnitudes = np.abs(moebius(games))
    sums = np.stack([magnitudes[:, sizes == k].sum(axis=1) for k in range(1, players + 1)], axis=1)
    total = sums.sum(axis=1, keepdims=True)
    shares = np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)
    return tuple(shares.mean(axis=0).tolist())


def metric_values(diagnosis: Diagnosis, side: GameSide) -> dict[str, SensitivityValue]:
    """Schema values of the metrics of the requested side, by key."""
    return {
        key: SensitivityValue(
            side=one.side,
            value=one.mean,
            ci95=one.ci95,
            rho=one.rho,
            rho_ci95=one.rho_ci95,
            n=one.count,
            examples=one.examples,
            accuracy=one.accuracy,
            accuracy_ci95=one.accuracy_ci95,
            notes=one.notes,
        )
        for key, one in diagnosis.metrics.items()
        if side in (one.side, "all")
    }


def finding_value(found: Finding) -> FindingValue:
    """Schema value of a finding."""
    return FindingValue(
        side=found.side,
        interaction=found.interaction,
        verdict=found.verdict,
        share=found.share,
        n=found.count,
        examples=found.examples,
        tests=tuple(map(_paired_value, found.tests)),
        sentence=found.sentence,
    )


def difference_value(found: ModelDifference) -> DifferenceValue:
    """Schema value of a model difference."""
    return DifferenceValue(
        models=found.names,
        n=found.count,
        tests=tuple(map(_paired_value, found.tests)),
        sentence=found.sentence,
    )


def _paired_value(test: PairedTest) -> PairedValue:
    return PairedValue(
        metric=test.key,
        first=test.first,
        second=test.second,
        difference=test.difference,
        ci95=test.ci95,
        p_holm=test.p,
    )
