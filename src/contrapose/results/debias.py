"""Debiasing: remove a language prior from likelihoods (VisualGPTScore, equation 7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from contrapose import metrics
from contrapose.data import Card, Macro
from contrapose.errors import InputError, NoPriorError, option
from contrapose.metrics import (
    AlphaIntervals,
    CrossValidation,
    FloatArray,
    IntArray,
    LikelihoodScale,
)
from contrapose.results.measures import Grouping, Measure, Measurements, group_units
from contrapose.results.schema import AlphaReport, AlphaValue
from contrapose.results.shapes import Debiasing, MeasureInput, find_shape, measure
from contrapose.results.statistics import build_statistics, is_share
from contrapose.scores import Answers
from contrapose.scores.outcomes import ChoiceOutcomes
from contrapose.scores.rankings import ComposedRankings

GRID = 101
"""Points of the curve that is kept; the optimum is found on the exact end points."""

Alpha = float | Literal["auto"]
"""How much of a prior is taken out; "auto" is chosen on one half and scored on the other."""


@dataclass(frozen=True, slots=True, eq=False)
class AlphaProblem:
    """Choice of α for one set of units: their measures as a function of α.

    Attributes:
        metric: the metric that α is chosen by.
        at: the measures at an α.
        intervals: the α at which each unit is right by that metric.
        weights: weight of each unit in it.
        clusters: units that fall into the same half.
        over: the groups of a macro average.
    """

    metric: str
    at: Callable[[float], Measurements]
    intervals: AlphaIntervals
    weights: FloatArray
    clusters: IntArray | None
    over: Grouping | None = None


def require_debiasing(card: Card) -> Debiasing:
    """Debiasing of a benchmark's shape.

    Raises:
        NoPriorError: it has no choice among captions.
    """
    debiasing = find_shape(card).debiasing
    if debiasing is None:
        raise NoPriorError(
            f"{card.name} has no choice among captions, so taking out a prior changes nothing."
        )
    return debiasing


def remove_prior(
    question: MeasureInput,
    prior: FloatArray,
    *,
    alpha: Alpha = "auto",
    scores_as: LikelihoodScale = "log",
    prior_as: LikelihoodScale = "log",
    seed: int = 0,
    prior_words: str = "",
) -> tuple[Measurements, AlphaReport]:
    """Remove α of the prior where captions are compared; returns the measures and the α sweep.

    Args:
        question: the captioner's likelihoods of examples, or of every pair of a gallery.
        prior: one value for each caption: examples × captions, or one for each text of a gallery.
        alpha: fixed, or "auto": chosen on one half of the examples and scored on the other.
        scores_as: the form of the likelihoods.
        prior_as: the form of the prior.
        seed: of the halves.
        prior_words: description of the prior for the report.

    Raises:
        InputError: these are no likelihoods, the prior is made of the examples' own images, or
            the benchmark has no choice among captions.
    """
    debiasing = require_debiasing(question.card)
    scores = question.scores
    if isinstance(scores, ComposedRankings | ChoiceOutcomes):
        raise InputError(f"{question.card.name} has rankings or outcomes, and no likelihoods.")
    lm = metrics.to_log_likelihood(scores.scores, scores_as)
    log_prior = metrics.to_log_likelihood(prior, prior_as)
    if isinstance(scores, Answers):
        metrics.refuse_own_images(lm, log_prior, scores.frame.present)
    question = replace(question, scores=replace(scores, scores=lm))

    def at(value: float) -> Measurements:
        return measure(question.without_prior(value, log_prior))

    raw = at(0.0)
    if isinstance(question.scores, Answers) and len(raw) != len(question.scores.frame):
        raise NoPriorError(
            f"{option('prior')} and an official protocol that leaves out examples do not go "
            "together."
        )
    aggregation = question.card.aggregation
    over = group_units(raw, aggregation) if isinstance(aggregation, Macro) else None
    intervals, weights = debiasing.intervals(question, log_prior)
    if weights is None:
        weights = _headline_weights(over, len(raw))
    problem = AlphaProblem(debiasing.metric, at, intervals, weights, raw.clusters, over)
    return apply_alpha(problem, alpha=alpha, seed=seed, prior_words=prior_words)


def apply_alpha(
    problem: AlphaProblem, *, alpha: Alpha, seed: int, prior_words: str = ""
) -> tuple[Measurements, AlphaReport]:
    """Measures at the requested α, and the report of every way to choose it."""
    at, over = problem.at, problem.over
    curve = metrics.sweep(problem.intervals.lower, problem.intervals.upper, problem.weights)
    best = curve.best()
    halves = metrics.cross_validate(
        problem.intervals, problem.clusters, seed=seed, weights=problem.weights
    )
    tuned, spread = _average_held_out(halves, at, over)
    columns = {
        "raw": at(0.0),
        "pmi": at(1.0),
        "cross_validated": tuned,
        "oracle": at(best.alpha),
    }
    values = {
        column: {
            name: statistic.value() for name, statistic in build_statistics(measured, over).items()
        }
        for column, measured in columns.items()
    }
    grid = np.linspace(0, 1, GRID)
    report = AlphaReport(
        prior=prior_words,
        chosen_by=problem.metric,
        applied="cross-validated" if alpha == "auto" else alpha,
        alphas=tuple(halves.alphas.tolist()),
        oracle_alpha=best.alpha,
        oracle_segment=(best.lower, best.upper),
        metrics={
            name: AlphaValue(
                **{column: value[name] for column, value in values.items()}, std=spread[name]
            )
            for name in values["raw"]
            if name in spread
        },
        curve=tuple(zip(grid.tolist(), curve.points(grid).tolist(), strict=True)),
    )
    return (tuned if alpha == "auto" else at(alpha)), report


def _headline_weights(over: Grouping | None, size: int) -> FloatArray:
    """Weight of each example in the headline, so that α is chosen by the headline."""
    if over is None:
        return np.ones(size)
    sizes = np.bincount(over.codes[over.codes >= 0], minlength=len(over.names))
    parents = np.array(over.parents)
    siblings = np.bincount(parents)[parents]
    of_group = 1 / (sizes * siblings * len(set(over.parents)))
    return np.where(over.codes >= 0, of_group[over.codes], 0.0)


def _average_held_out(
    halves: CrossValidation, at: Callable[[float], Measurements], over: Grouping | None
) -> tuple[Measurements, dict[str, float]]:
    """Average each example's outcomes over the repeats that did not choose α by it.

    What is the same at every α chosen, as the image score is, stays that of all examples.

    Returns:
        The outcomes, and each metric's standard deviation over the repeats.
    """
    repeats = [at(float(alpha)) for alpha in halves.alphas]
    count = halves.scored.sum(axis=0)
    first = repeats[0]
    measures: dict[str, Measure] = {}
    for name, measure_ in first.measures.items():
        repeated = [repeat.measures[name] for repeat in repeats]
        values = np.stack([one.values for one in repeated])
        if (values == values[0]).all():
            measures[name] = measure_
            continue
        mean = (values * halves.scored).sum(axis=0) / np.maximum(count, 1)
        ties = measure_.ties
        if ties is not None:
            tied = np.stack([one.ties for one in repeated if one.ties is not None])
            ties = np.asarray((tied & halves.scored).any(axis=0))
        weights = None if over is not None else count.astype(np.float64)
        measures[name] = replace(
            measure_, values=mean, ties=ties, where=measure_.where & (count > 0), weights=weights
        )
    per_repeat: dict[str, list[float]] = {}
    for repeat, scored in zip(repeats, halves.scored, strict=True):
        half = repeat.take(np.flatnonzero(scored))
        within = None if over is None else replace(over, codes=over.codes[scored])
        for name, statistic in build_statistics(half, within).items():
            if is_share(half, name):
                per_repeat.setdefault(name, []).append(statistic.value())
    spread = {name: float(np.std(values, ddof=1)) for name, values in per_repeat.items()}
    return replace(first, measures=measures), spread
