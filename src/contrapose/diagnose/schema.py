"""Versioned schema of a diagnosis (file and JSON output), and conversion of measurements to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from contrapose.diagnose.findings import Finding
from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.metrics import GameSide, MetricSide
from contrapose.diagnose.model_differences import ModelDifference
from contrapose.diagnose.sensitivity import Diagnosis, Range
from contrapose.diagnose.words import PlayerKind
from contrapose.metrics import FloatArray
from contrapose.metrics.dividends import moebius
from contrapose.results.schema import SchemaModel

DIAGNOSIS_VERSION: Literal[1] = 1


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
        notes: reasons why a value is null or a comparison is left out.
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


class LeftOutValue(SchemaModel):
    """Example that was not played, or not by all players, with the reason."""

    example: str
    reason: str


class Counts(SchemaModel):
    """Cost of the games.

    Attributes:
        games: games played: one per image and caption of an example.
        cells: scores that they need.
        encodings: images and captions that were encoded (dual encoders).
        pairs: pairs that were scored one by one (other models).
        naive: encodings (or pairs) that scoring every cell anew would have taken.
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
        games: number of these games, counted as in `Counts`.
        shares: shares of Σ|w| over non-empty coalitions, by their size from 1; means over games.
    """

    side: MetricSide
    players: int
    games: int
    shares: tuple[float, ...]


class ModelDiagnosis(SchemaModel):
    """Diagnosis of one model.

    Attributes:
        model: the model's name.
        score: the score that the games are about.
        fingerprint: hash of the weights.
        examples: examples that were played.
        metrics: the requested side's metrics over all examples, by key.
        parts: the same for each part of a suite.
        kinds: the same for each kind of change: objects change places, attributes change hands,
            the things stay the same; findings are about these.
        findings: verdicts on whether the interactions dominate.
        equivariance: equivariance of the 2 × 2 examples, in standard deviations of the score.
        orders: shares by size of coalition.
        counts: cost of the games.
        left_out: examples that were not played, with the reason.
        notes: notes for the reader.
    """

    model: str
    score: str
    fingerprint: str
    examples: int
    metrics: dict[str, SensitivityValue]
    parts: dict[str, dict[str, SensitivityValue]]
    kinds: dict[str, dict[str, SensitivityValue]]
    findings: tuple[Finding, ...]
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
        benchmark: the benchmark's name.
        parts: the parts that were diagnosed; empty where there are none.
        examples: examples that were selected.
        side: the requested side.
        players: groups, words or superpixels.
        words: source of the word groups; null where words do not play.
        regions: source of the regions; null where they do not play.
        baseline: text and image mask, by name.
        baseline_words: the same in words.
        preset: `released` for the authors' script; null without a preset.
        resamples: number of bootstrap resamples.
        seed: seed of everything random.
        models: the diagnosis of each model.
        differences: differences of each two models.
        notes: notes for the reader.
    """

    schema_version: Literal[1] = DIAGNOSIS_VERSION
    contrapose: str
    benchmark: str
    parts: tuple[str, ...]
    examples: int
    side: GameSide
    players: PlayerKind
    words: str | None
    regions: str | None
    baseline: dict[str, str]
    baseline_words: str
    preset: str | None
    resamples: int
    seed: int
    models: tuple[ModelDiagnosis, ...]
    differences: tuple[ModelDifference, ...] = ()
    notes: tuple[str, ...] = ()


def order_shares(blocks: Sequence[GameBlock]) -> tuple[OrderShares, ...]:
    """Shares of Σ|w| by size of coalition, for each side and number of players."""
    parts_of: dict[tuple[MetricSide, int], list[FloatArray]] = {}
    for block in blocks:
        games = block.values.reshape(-1, *block.values.shape[3:])
        if block.text_players:
            parts_of.setdefault(("text", len(block.text_players)), []).append(games[:, -1, :])
        if block.image_players:
            parts_of.setdefault(("image", len(block.image_players)), []).append(games[:, :, -1])
    return tuple(
        OrderShares(
            side=side, players=players, games=len(known), shares=_mean_shares(known, players)
        )
        for (side, players), parts in sorted(parts_of.items(), key=lambda item: item[0][::-1])
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
