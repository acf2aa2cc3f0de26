"""The shape of results on disk and on standard output, versioned."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION: Literal[1] = 1


class Model(BaseModel):
    """Values that do not change and take no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MetricValue(Model):
    """A number that says how sure it is.

    Attributes:
        value: as a fraction, not rounded.
        ci95: 95 % percentile bootstrap interval over examples.
        n: how many examples (or queries) it is the mean of.
        chance: what guessing gets; null where guessing has no meaning.
        ties: share of the n with at least one tied comparison that decides the outcome; null
            for numbers that compare nothing.
    """

    value: float
    ci95: tuple[float, float]
    n: int
    chance: float | None = None
    ties: float | None = None


class AlphaValue(Model):
    """What a metric becomes when the language prior is taken out.

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


class AlphaReport(Model):
    """The α sweep of one run.

    Attributes:
        prior: the images that the prior was taken under, in words; empty when it came from a file.
        chosen_by: the metric that α was chosen by.
        applied: α of the headline metrics: a number, or "cross-validated".
        alphas: the α that each repeat chose on its half.
        oracle_alpha: the α that is best on the test data; the middle of `oracle_segment`.
        oracle_segment: the whole open interval of α that does as well.
        metrics: what each metric becomes.
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


class Usage(Model):
    """What questions in words took, whenever they were asked.

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


class Skipped(Model):
    """What could not be asked, and so counts in no metric.

    Attributes:
        examples: how many examples (queries of a gallery).
        reasons: how many for each reason.
        first: the whole sentence on the first of them.
    """

    examples: int
    reasons: dict[str, int]
    first: str


class Results(Model):
    """What a score table says.

    Attributes:
        schema_version: version of this shape.
        contrapose: version of the program.
        benchmark: name of the benchmark.
        model: the model that was asked; null when the scores came from a file.
        score: what it was asked for.
        scores: the score file as the user named it; null when a model was asked.
        protocol: "strict" (ties are never wins) or "official".
        aggregation: how the headline adds up, in words.
        examples: number of examples.
        clusters: number of groups of examples that share no image; null when images are unknown.
        resamples: bootstrap resamples asked for.
        seed: of everything random.
        metrics: the headline.
        subsets: the same for parts of the examples.
        alpha: the α sweep, when a prior was given.
        part_alphas: the same for each part of a suite.
        skipped: what could not be asked; null when everything was.
        usage: what the questions of `chat` took; null for other scores.
        notes: what a reader should know.
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
    subsets: dict[str, dict[str, MetricValue]]
    alpha: AlphaReport | None = None
    part_alphas: dict[str, AlphaReport] = Field(default_factory=dict)
    skipped: Skipped | None = None
    usage: Usage | None = None
    notes: tuple[str, ...] = ()


class Evaluation(Model):
    """What `contrapose eval` found: a run for every model, benchmark and score."""

    schema_version: Literal[1] = SCHEMA_VERSION
    contrapose: str
    runs: tuple[Results, ...]


class Difference(Model):
    """One metric of two runs on the same examples.

    Attributes:
        a: its value in the first run.
        b: its value in the second.
        difference: b − a.
        ci95: paired bootstrap interval of the difference.
        n: examples both have.
        share: whether it is a share of examples, to be written as a percentage.
        test: "mcnemar-exact", "mcnemar-midp" or "paired-bootstrap".
        p: two-sided.
        p_holm: corrected for all metrics compared.
        verdict: what the corrected p says at the chosen level.
    """

    a: float
    b: float
    difference: float
    ci95: tuple[float, float]
    n: int
    share: bool
    test: str
    p: float
    p_holm: float
    verdict: Literal["better", "worse", "no significant difference"]


class Comparison(Model):
    """Two runs of the same examples, compared pair by pair."""

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
