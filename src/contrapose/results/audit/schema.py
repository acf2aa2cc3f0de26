"""The shape of an audit on disk and on standard output, versioned."""

from __future__ import annotations

from typing import Literal

from contrapose.results.schema import MetricValue, Model

AUDIT_VERSION: Literal[1] = 1

WHOLE = "all"
"""The name of the benchmark as a whole among its parts."""

LikelihoodVerdict = Literal["won by prior alone", "beyond blind", "undecided", "not above chance"]


class Spread(Model):
    """How the scores of right and of wrong captions are spread, on common edges.

    Attributes:
        edges: one more than there are bins.
        right: number of right captions in each bin.
        wrong: number of wrong captions in each bin.
    """

    edges: tuple[float, ...]
    right: tuple[int, ...]
    wrong: tuple[int, ...]


class BlindResult(Model):
    """What one score that never looks achieves.

    Attributes:
        score: `blind` and `blind-sum`, `prior`, `ngram` or `length`.
        by: whose: a model, or what the baseline is made of.
        meaning: what the number is, in words.
        metrics: the benchmark's own aggregation.
        subsets: the same for parts of the examples.
        reversed: for every part its main metric when the order of the captions is turned round.
        spread: of the scores themselves.
        left_out: examples of which a caption has no score.
    """

    score: str
    by: str
    meaning: str
    metrics: dict[str, MetricValue]
    subsets: dict[str, dict[str, MetricValue]]
    reversed: dict[str, MetricValue]
    spread: Spread
    left_out: int = 0

    @property
    def label(self) -> str:
        """The score and whose it is, in few words."""
        return f"{self.score} ({self.by})"


class AuditPart(Model):
    """A part of the benchmark and who solves it.

    Attributes:
        name: of the part; `all` is the whole.
        metric: that stands for it.
        n: examples.
        chance: what guessing gets.
        solved_by: labels of the scores whose 95 % interval lies above chance.
        reversed_by: labels of the scores that would, the other way round.
    """

    name: str
    metric: str
    n: int
    chance: float
    solved_by: tuple[str, ...]
    reversed_by: tuple[str, ...]


class LikelihoodPart(Model):
    """A captioner's likelihood on a part, beside the best score there that never looks.

    Attributes:
        part: its name.
        metric: that stands for it.
        likelihood: what the likelihood gets.
        blind: what the best blind score gets.
        by: which that is.
        difference: likelihood − blind.
        ci95: paired interval of the difference.
        test: which paired test.
        p: two-sided.
        p_holm: corrected for all parts.
        where_wrong: what the likelihood gets where that blind score is wrong; null where it never
            is.
        verdict: "not above chance". "won by prior alone": above chance, as the blind score is, and
            either not significantly better than it or not above chance where it is wrong.
            "beyond blind": significantly better, and above chance there too; its own prior may
            still know more than the scores here. "undecided": none of these.
    """

    part: str
    metric: str
    likelihood: MetricValue
    blind: MetricValue
    by: str
    difference: float
    ci95: tuple[float, float]
    test: str
    p: float
    p_holm: float
    where_wrong: MetricValue | None
    verdict: LikelihoodVerdict


class AuditReport(Model):
    """How much of a benchmark can be solved without looking.

    Attributes:
        schema_version: version of this shape.
        contrapose: version of the program.
        benchmark: name of the benchmark.
        aggregation: how its headline adds up, in words.
        examples: that were audited.
        clusters: groups of examples that share no image.
        resamples: of the bootstrap.
        seed: of everything random.
        balanced: parts that no blind score can solve, by construction.
        scores: what each blind score achieves.
        parts: the whole first.
        likelihoods_from: the file of likelihoods that was compared.
        likelihoods: the comparison, part by part.
        verdict: in words, a sentence each.
        notes: what a reader should know.
    """

    schema_version: Literal[1] = AUDIT_VERSION
    contrapose: str
    benchmark: str
    aggregation: str
    examples: int
    clusters: int
    resamples: int
    seed: int
    balanced: tuple[str, ...] = ()
    scores: tuple[BlindResult, ...] = ()
    parts: tuple[AuditPart, ...] = ()
    likelihoods_from: str | None = None
    likelihoods: tuple[LikelihoodPart, ...] = ()
    verdict: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
