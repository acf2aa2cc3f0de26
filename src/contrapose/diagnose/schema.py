"""Versioned schema of a diagnosis (file and JSON output), and the differences of two models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from contrapose.diagnose.findings import Finding
from contrapose.diagnose.game_blocks import GameBlock
from contrapose.diagnose.metrics import (
    FAMILIES,
    Comparisons,
    Diagnosis,
    MetricFamily,
    MetricSide,
    Sensitivity,
)
from contrapose.diagnose.players import GameSide
from contrapose.diagnose.words import PlayerKind
from contrapose.metrics import FloatArray
from contrapose.metrics.dividends import moebius
from contrapose.metrics.statistics.bootstrap import RESAMPLES
from contrapose.results.paired_tests import PairedTest, compare_means, correct_holm, join_words
from contrapose.results.schema import SchemaModel


class ModelDifference(SchemaModel):
    """Difference of two models: paired tests by metric.

    Attributes:
        models: the two models.
        n: comparisons that both have, the most over the metrics.
        tests: per metric, second model − first, on the comparisons both have.
        sentence: the difference in words.
    """

    models: tuple[str, str]
    n: int
    tests: tuple[PairedTest, ...]
    sentence: str


def compare_diagnoses(
    first: Diagnosis,
    second: Diagnosis,
    names: tuple[str, str],
    *,
    families: Sequence[MetricFamily] = FAMILIES,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ModelDifference:
    """Compare two models on the same comparisons, metric by metric, corrected by Holm.

    A sensitivity is in units of the model's own mean squared dividend on that example, so that
    models with scores of different scales can be compared.
    """
    tests: list[PairedTest] = []
    count = 0
    for family in families:
        a, b = first.comparisons[family.name], second.comparisons[family.name]
        rows_a, rows_b = _common_rows(a, b)
        for column, key in enumerate(family.keys):
            x, y = a.sensitivities[rows_a, column], b.sensitivities[rows_b, column]
            both = ~(np.isnan(x) | np.isnan(y))
            clusters = a.clusters[rows_a][both]
            if np.unique(clusters).size < 2:
                continue
            count = max(count, int(both.sum()))
            tests.append(
                compare_means(key, x[both], y[both], clusters, resamples=resamples, seed=seed)
            )
    final = tuple(correct_holm(tests))
    sentence = _difference_sentence(names, final, count)
    return ModelDifference(models=names, n=count, tests=final, sentence=sentence)


def _common_rows(a: Comparisons, b: Comparisons) -> tuple[list[int], list[int]]:
    """Rows of the comparisons that both diagnoses have, in the order of the first."""
    index = {row: i for i, row in enumerate(b.rows)}
    pairs = [(i, index[row]) for i, row in enumerate(a.rows) if row in index]
    return [i for i, _ in pairs], [j for _, j in pairs]


def _difference_sentence(names: tuple[str, str], tests: Sequence[PairedTest], count: int) -> str:
    first, second = names
    if not tests:
        return f"{first} and {second} have no comparisons in common to tell them apart by."
    shown = [test for test in tests if test.is_significant]
    alike = [test.metric for test in tests if not test.is_significant]
    where = f"on up to {count} comparisons that both have, p after Holm."
    if not shown:
        return f"{second} is not shown to differ from {first} in any metric, {where}"
    changed = join_words(
        [
            f"{test.metric} ({test.second:.3g} against {test.first:.3g}, {test.words})"
            for test in shown
        ]
    )
    rest = f"; no difference is shown in {join_words(alike)}" if alike else ""
    return f"{second} differs from {first} in {changed}{rest}; {where}"


DIAGNOSIS_VERSION: Literal[1] = 1


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
    metrics: dict[str, Sensitivity]
    parts: dict[str, dict[str, Sensitivity]]
    kinds: dict[str, dict[str, Sensitivity]]
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


def metric_values(diagnosis: Diagnosis, side: GameSide) -> dict[str, Sensitivity]:
    """Metrics of the requested side, by key."""
    return {key: one for key, one in diagnosis.metrics.items() if side in (one.side, "all")}
