"""The shape of a diagnosis on disk and on standard output, versioned."""

from __future__ import annotations

from typing import Literal

from contrapose.diagnose.findings import Verdict
from contrapose.diagnose.fourteen import Side
from contrapose.results.schema import Model

DIAGNOSIS_VERSION: Literal[1] = 1

Range = tuple[float, float]


class SensitivityValue(Model):
    """One of the fourteen metrics.

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

    side: Side
    value: float | None
    ci95: Range | None
    rho: float | None
    rho_ci95: Range | None
    n: int
    examples: int
    accuracy: float | None
    accuracy_ci95: Range | None
    notes: tuple[str, ...] = ()


class PairedValue(Model):
    """A paired test of two mean sensitivities.

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


class FindingValue(Model):
    """Whether an interaction dominates its parts, as it should.

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

    side: Side
    interaction: str
    verdict: Verdict
    share: float | None
    n: int
    examples: int
    tests: tuple[PairedValue, ...]
    sentence: str


class DifferenceValue(Model):
    """Where two models differ.

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


class LeftOutValue(Model):
    """An example that was not played, or not by all players, and why."""

    example: str
    reason: str


class Counts(Model):
    """What the games took.

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


class OrderShares(Model):
    """How much of a model's scores lies in coalitions of one, two, three … players.

    Attributes:
        side: text (all regions present) or image (all words present).
        players: number of players of these games.
        games: how many of them.
        shares: of Σ|w| over coalitions that are not empty, by their size from 1; means of games.
    """

    side: Side
    players: int
    games: int
    shares: tuple[float, ...]


class ModelDiagnosis(Model):
    """What was found in one model.

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


class DiagnosisReport(Model):
    """What `contrapose diagnose` found.

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
