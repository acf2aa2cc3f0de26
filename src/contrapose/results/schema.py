"""Versioned schema of results and audits, on disk and on standard output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION: Literal[1] = 1


class SchemaModel(BaseModel):
    """Base of the schema: immutable, and unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NotebookView:
    """Mixin of results that a notebook shows as tables, drawn by the renderer of a higher layer."""

    __slots__ = ()
    render_html: ClassVar[Callable[[Any], str] | None] = None

    def _repr_html_(self) -> str | None:
        """HTML for notebooks; None, for plain text, where no renderer is set."""
        render = type(self).render_html
        return None if render is None else render(self)


class MetricValue(SchemaModel):
    """Value of a metric with its interval, chance level and tie rate.

    Attributes:
        value: as a fraction, not rounded.
        ci95: 95 % interval: percentile bootstrap over examples, clustered by image; exact for
            shares near 0 and 1 and for few examples; null with fewer than 10 clusters.
        n: how many examples (or queries) it is the mean of.
        chance: what guessing gets; null where guessing has no meaning.
        ties: share of the n with at least one tied comparison that decides the outcome; null
            for numbers that compare nothing.
        share: whether it is a share of the n though neither chance nor ties are known.
    """

    value: float
    ci95: tuple[float, float] | None
    n: int
    chance: float | None = None
    ties: float | None = None
    share: bool = False


class AlphaValue(SchemaModel):
    """Values of one metric under debiasing: raw, PMI, cross-validated and oracle α.

    Attributes:
        raw: α = 0, the likelihood as it is.
        pmi: α = 1, pointwise mutual information.
        cross_validated: α chosen on one half, scored on the other; mean of the repeats.
        std: standard deviation over the repeats.
        oracle: the best a single α reaches on the test data itself; never a headline.
    """

    raw: float
    pmi: float
    cross_validated: float
    std: float
    oracle: float


class AlphaReport(SchemaModel):
    """Report of the α sweep of one run.

    Attributes:
        prior: description of the prior's images; empty when the prior came from a file.
        chosen_by: the metric that α was chosen by.
        applied: α of the headline metrics: a number, or "cross-validated".
        alphas: the α that each repeat chose on its half.
        oracle_alpha: the α that is best on the test data; the middle of `oracle_segment`.
        oracle_segment: the open interval of α that does as well.
        metrics: values of each metric.
        curve: (α, value of `chosen_by`) on an even grid; the optimum is found on the exact end
            points, not on this grid.
    """

    prior: str = ""
    chosen_by: str
    applied: float | Literal["cross-validated"]
    alphas: tuple[float, ...]
    oracle_alpha: float
    oracle_segment: tuple[float, float]
    metrics: dict[str, AlphaValue]
    curve: tuple[tuple[float, float], ...]


class UsageReport(SchemaModel):
    """Token usage and cost of chat questions, including those answered from the cache.

    Attributes:
        questions: distinct ones.
        uncounted: replies that came without token counts.
        tokens_in: tokens of the prompts.
        tokens_out: tokens of the replies.
        cost: at the prices the user gave; null without.
    """

    questions: int
    uncounted: int
    tokens_in: int
    tokens_out: int
    cost: float | None = None


class SkipReport(SchemaModel):
    """Skipped examples, which count in no metric: their number and reasons.

    Attributes:
        examples: how many examples (queries of a gallery).
        reasons: how many for each reason.
        first: the sentence on the first of them.
    """

    examples: int
    reasons: dict[str, int]
    first: str


class Results(SchemaModel):
    """Results of one run: one model or score file, benchmark and score.

    Attributes:
        schema_version: version of this shape.
        contrapose: version of the program.
        benchmark: name of the benchmark.
        model: name of the model; null when the scores came from a file.
        score: name of the score.
        scores: the score file as the user named it; null when a model was asked.
        protocol: "strict" (ties are never wins) or "official".
        aggregation: how the headline adds up, in words.
        examples: number of examples.
        clusters: number of groups of examples that share no image; null when images are unknown.
        resamples: bootstrap resamples asked for.
        seed: of everything random.
        metrics: the headline.
        strict: under the official protocol, the headline where ties are never wins.
        subsets: the metrics of parts of the examples.
        alpha: the α sweep, when a prior was given.
        part_alphas: the same for each part of a suite.
        skipped: the skipped examples; null when there are none.
        usage: tokens and cost of `chat`; null for other scores.
        notes: sentences for the reader.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    contrapose: str
    benchmark: str
    model: str | None = None
    score: str | None = None
    scores: str | None = None
    protocol: Literal["strict", "official"]
    aggregation: str
    examples: int
    clusters: int | None
    resamples: int
    seed: int
    metrics: dict[str, MetricValue]
    strict: dict[str, MetricValue] = Field(default_factory=dict)
    subsets: dict[str, dict[str, MetricValue]]
    alpha: AlphaReport | None = None
    part_alphas: dict[str, AlphaReport] = Field(default_factory=dict)
    skipped: SkipReport | None = None
    usage: UsageReport | None = None
    notes: tuple[str, ...] = ()


class Evaluation(SchemaModel):
    """Results of `contrapose eval`: one run for every model, benchmark and score."""

    schema_version: Literal[1] = SCHEMA_VERSION
    contrapose: str
    runs: tuple[Results, ...]


Verdict = Literal["better", "worse", "higher", "lower", "no significant difference"]
"""Verdict of a comparison; higher and lower of metrics of which neither direction is better."""


class Difference(SchemaModel):
    """Difference of one metric between two runs on the same examples.

    Attributes:
        a: its value in the first run.
        b: its value in the second.
        difference: b − a.
        ci95: paired bootstrap interval of the difference; null with fewer than 10 clusters.
        n: examples both have.
        share: whether it is a share of examples, to be written as a percentage.
        better: whether higher or lower is better; null where neither is.
        test: "mcnemar-exact", "mcnemar-midp" or "paired-bootstrap"; "too few" with fewer than 10
            clusters.
        p: two-sided; 1 where there are too few clusters.
        p_holm: corrected for all metrics compared.
        verdict: what the corrected p says at the chosen level.
    """

    a: float
    b: float
    difference: float
    ci95: tuple[float, float] | None
    n: int
    share: bool
    better: Literal["higher", "lower"] | None
    test: str
    p: float
    p_holm: float
    verdict: Verdict


class Comparison(NotebookView, SchemaModel):
    """Paired comparison of two runs on the same examples."""

    schema_version: Literal[1] = SCHEMA_VERSION
    contrapose: str
    benchmark: str
    a: str
    b: str
    level: float
    resamples: int
    seed: int
    metrics: dict[str, Difference]
    notes: tuple[str, ...] = ()


class BaselineComparisons(NotebookView, SchemaModel):
    """Comparisons of several runs with one baseline, corrected over all their tests."""

    schema_version: Literal[1] = SCHEMA_VERSION
    contrapose: str
    comparisons: tuple[Comparison, ...]


AUDIT_VERSION: Literal[1] = 1

WHOLE = "all"
"""The name of the benchmark as a whole among its parts."""

LikelihoodVerdict = Literal["won by prior alone", "beyond blind", "undecided", "not above chance"]


class ScoreSpread(SchemaModel):
    """Histogram of the scores of right and of wrong captions, on common edges.

    Attributes:
        edges: one more than there are bins.
        right: number of right captions in each bin.
        wrong: number of wrong captions in each bin.
    """

    edges: tuple[float, ...]
    right: tuple[int, ...]
    wrong: tuple[int, ...]


class BlindResult(SchemaModel):
    """Metrics of one blind score.

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
    spread: ScoreSpread
    left_out: int = 0

    @property
    def label(self) -> str:
        """Label of the score: its name and whose it is."""
        return f"{self.score} ({self.by})"


class AuditPart(SchemaModel):
    """Part of the benchmark, and the blind scores that solve it.

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


class LikelihoodPart(SchemaModel):
    """Comparison of a captioner's likelihood with the best blind score, on one part.

    Attributes:
        part: its name.
        metric: that stands for it.
        likelihood: what the likelihood gets.
        blind: what the best blind score gets.
        by: which that is.
        difference: likelihood − blind.
        ci95: paired interval of the difference; null with fewer than 10 clusters.
        test: which paired test.
        p: two-sided.
        p_holm: corrected for all parts.
        where_wrong: what the likelihood gets where that blind score is wrong, for information: it
            has no chance level, since these examples are selected against the prior; null where
            the blind score is never wrong.
        verdict: "not above chance". "beyond blind": above chance, and significantly better than
            the blind score by the paired test; its own prior may still know more than the scores
            here. "won by prior alone": above chance, as the blind score is, and not significantly
            better than it. "undecided": above chance, and neither of these.
    """

    part: str
    metric: str
    likelihood: MetricValue
    blind: MetricValue
    by: str
    difference: float
    ci95: tuple[float, float] | None
    test: str
    p: float
    p_holm: float
    where_wrong: MetricValue | None
    verdict: LikelihoodVerdict


class AuditReport(NotebookView, SchemaModel):
    """Report of an audit: how much of a benchmark blind scores solve.

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
        notes: sentences for the reader.
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
