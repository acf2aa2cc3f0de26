"""Debiasing: remove a language prior from likelihoods (VisualGPTScore, equation 7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from contrapose import metrics
from contrapose.data import Card, Gallery, Macro
from contrapose.errors import InputError
from contrapose.metrics import AlphaIntervals, CrossValidation, FloatArray, IntArray
from contrapose.results.measures import Grouping, Measure, Measurements, group_units
from contrapose.results.schema import AlphaReport, AlphaValue
from contrapose.results.shapes import MeasureInput, measure, primary_metric
from contrapose.results.shapes.gallery import measure_gallery
from contrapose.results.summary import build_statistics, is_share
from contrapose.scores.files import LikelihoodScale, to_log_likelihood

GRID = 101
"""Points of the curve that is kept; the optimum is found on the exact end points."""

Alpha = float | Literal["auto"]
"""How much of a prior is taken out; "auto" is chosen on one half and scored on the other."""


@dataclass(frozen=True, slots=True, eq=False)
class Debiasing:
    """Debiasing problem: measures as a function of α.

    Attributes:
        chosen_by: the metric that α is chosen by.
        at: the outcomes at an α.
        intervals: where each unit is right by that metric.
        weights: what each unit counts for in it.
        clusters: units that fall into the same half.
        over: the groups of a macro average.
    """

    chosen_by: str
    at: Callable[[float], Measurements]
    intervals: AlphaIntervals
    weights: FloatArray
    clusters: IntArray | None
    over: Grouping | None = None


def remove_prior(
    question: MeasureInput,
    prior: FloatArray,
    *,
    alpha: Alpha = "auto",
    scores_as: LikelihoodScale = "log",
    prior_as: LikelihoodScale = "log",
    seed: int = 0,
    words: str = "",
) -> tuple[Measurements, AlphaReport]:
    """Remove α of the prior from choices among captions; returns the measures and the α sweep.

    Args:
        question: the captioner's likelihoods.
        prior: k × n, one value a caption.
        alpha: fixed, or "auto": chosen on one half of the examples and scored on the other.
        scores_as: the form of the likelihoods.
        prior_as: the form of the prior.
        seed: of the halves.
        words: what the prior is of.

    Raises:
        InputError: these are no likelihoods, the prior is made of the examples' own images, or
            the benchmark has no choice among captions.
    """
    name = primary_metric(question.card)
    frame = question.answers.frame
    lm = to_log_likelihood(question.answers.scores, scores_as)
    log_prior = to_log_likelihood(prior, prior_as)
    metrics.refuse_own_images(lm, log_prior, frame.present)
    question = replace(question, answers=replace(question.answers, scores=lm))

    def at(value: float) -> Measurements:
        debiased = lm - value * log_prior[:, None, :]
        return measure(replace(question, caption_scores=debiased))

    raw = at(0.0)
    if len(raw) != len(frame):
        raise InputError(
            "--prior and an official protocol that leaves out examples do not go together."
        )
    over = (
        group_units(raw, question.card.aggregation)
        if isinstance(question.card.aggregation, Macro)
        else None
    )
    intervals = _example_intervals(question, lm, log_prior)
    whole = Debiasing(name, at, intervals, _headline_weights(over, len(raw)), frame.clusters, over)
    return apply_alpha(whole, alpha=alpha, seed=seed, words=words)


def remove_gallery_prior(
    scores: FloatArray,
    prior: FloatArray,
    gallery: Gallery,
    card: Card,
    *,
    alpha: Alpha = "auto",
    seed: int = 0,
    words: str = "",
) -> tuple[Measurements, AlphaReport]:
    """Remove α of the texts' prior from the rankings of every image of a gallery.

    Of a text all images have the same prior, so that their ranking does not move.

    Args:
        scores: images × texts, log-likelihoods of every pair.
        prior: one value a text.
        gallery: what belongs together.
        card: of the benchmark.
        alpha: fixed, or "auto".
        seed: of the halves.
        words: what the prior is of.
    """
    lm = to_log_likelihood(scores, "log")
    pairs = np.array(gallery.pairs, dtype=np.int64)

    def at(value: float) -> Measurements:
        return measure_gallery(lm - value * prior, gallery, card, from_text=lm)

    raw = at(0.0)
    first = metrics.first_intervals(lm, prior, pairs)
    texts = len(raw) - len(gallery.images)  # texts are units too, and α decides nothing of theirs
    intervals = AlphaIntervals(
        np.pad(first.lower, ((0, texts), (0, 0)), constant_values=np.inf),
        np.pad(first.upper, ((0, texts), (0, 0)), constant_values=-np.inf),
    )
    asked = np.zeros(len(raw))
    asked[pairs[:, 0]] = 1.0
    name = "top1" if card.family == "classes" else "image_to_text_r1"
    whole = Debiasing(name, at, intervals, asked, raw.clusters)
    return apply_alpha(whole, alpha=alpha, seed=seed, words=words)


def apply_alpha(
    whole: Debiasing, *, alpha: Alpha, seed: int, words: str = ""
) -> tuple[Measurements, AlphaReport]:
    """Measures at the requested α, and the report of every way to choose it."""
    at, over = whole.at, whole.over
    curve = metrics.sweep(whole.intervals.lower, whole.intervals.upper, whole.weights)
    best = curve.best()
    halves = metrics.cross_validate(
        whole.intervals, whole.clusters, seed=seed, weights=whole.weights
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
            each: statistic.value() for each, statistic in build_statistics(found, over).items()
        }
        for column, found in columns.items()
    }
    grid = np.linspace(0, 1, GRID)
    report = AlphaReport(
        prior=words,
        chosen_by=whole.chosen_by,
        applied="cross-validated" if alpha == "auto" else alpha,
        alphas=tuple(halves.alphas.tolist()),
        oracle_alpha=best.alpha,
        oracle_segment=(best.lower, best.upper),
        metrics={
            each: AlphaValue(
                **{column: value[each] for column, value in values.items()}, std=spread[each]
            )
            for each in values["raw"]
            if each in spread
        },
        curve=tuple(zip(grid.tolist(), curve.points(grid).tolist(), strict=True)),
    )
    return (tuned if alpha == "auto" else at(alpha)), report


def _example_intervals(
    question: MeasureInput, lm: FloatArray, log_prior: FloatArray
) -> AlphaIntervals:
    """Intervals of α on which each example is right by the metric that α is chosen by."""
    if question.card.family == "triple":
        return metrics.augmented_intervals(lm[:, 0], log_prior)
    frame = question.answers.frame
    return metrics.text_intervals(lm, log_prior, frame.match, frame.present)


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
        each = [repeat.measures[name] for repeat in repeats]
        values = np.stack([one.values for one in each])
        if (values == values[0]).all():
            measures[name] = measure_
            continue
        mean = (values * halves.scored).sum(axis=0) / np.maximum(count, 1)
        ties = measure_.ties
        if ties is not None:
            tied = np.stack([one.ties for one in each if one.ties is not None])
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
