"""Judgement: one image with one caption, which fits or does not; yes or no (VSR).

A score at or above the threshold says yes. Accuracy, balanced accuracy, share of yes and
calibration need probabilities or a threshold of the user; AUROC and the accuracy at the best
threshold do not. That threshold is chosen on scores of dev examples: given beside the others, or
those whose tag `split` is `dev`; and by cross-fitting where there are none. Scores that are all 0,
½ or 1 are replies: ½ is a reply that says neither yes nor no, which is wrong, and which only the
official protocol takes for a yes. Examples with the same tag `prompt` are one cluster.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from contrapose import metrics
from contrapose.data.examples import DEV
from contrapose.errors import InputError, option
from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.results.measures import MARGIN, DerivedMetric, Measure
from contrapose.results.shapes.base import ChatMeasures, MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.comparisons import prompt_clusters
from contrapose.scores import Frame

NO_ANSWER = 0.5
"""Score of a reply that says neither yes nor no."""

BEST = "best_threshold_accuracy"
"""Accuracy at the threshold that other examples chose: defined for scores of any scale."""


def _measure(question: MeasureInput) -> ShapeMeasures:
    frame = _cluster_by_prompt(question.answers.frame)
    if frame.match.shape[1:] != (1, 1):
        raise InputError(f"{question.card.name} needs 1 image and 1 caption an example.")
    scores = question.answers.scores[:, 0, 0].astype(np.float64)
    labels = np.asarray(frame.match[:, 0, 0])
    units = np.flatnonzero(~_is_dev(frame))
    dev = np.flatnonzero(_is_dev(frame)) if len(units) else units
    units = units if len(units) else np.arange(len(frame))
    counted = frame.take(units) if len(dev) else frame
    s, truth = scores[units], labels[units]
    everywhere = np.ones(len(units), dtype=np.bool_)
    notes = [f"{100 * truth.mean():.1f} % of the captions fit: always yes gets as much"]
    measures: dict[str, Measure] = {}
    derived: dict[str, DerivedMetric] = {}
    probable = not question.cosines and bool(s.min() >= 0 and s.max() <= 1)
    threshold = question.threshold
    if threshold is None and probable:
        threshold = 0.5
    if threshold is None:
        notes.append(
            f"the scores are not probabilities: accuracy, share of yes and calibration need "
            f"{option('threshold')}"
        )
    else:
        measures |= _measure_threshold(
            s, truth, threshold, official=question.protocol == "official"
        )
        derived["balanced_accuracy"] = DerivedMetric("average", ("accuracy_true", "accuracy_false"))
    described = None
    if len(dev) or "prompt" in frame.tags:
        described = (counted.ids, counted.tags, counted.clusters)
        notes = [*question.answers.notes, *notes]
    if probable and are_replies(s) and question.threshold in (None, NO_ANSWER):
        away = np.where(truth, NO_ANSWER - s, s - NO_ANSWER)
        measures[MARGIN] = Measure(away, everywhere, better=None, shown=False)
        silent = int((s == NO_ANSWER).sum())
        if silent:
            taken = "taken for yes" if question.protocol == "official" else "wrong"
            notes.append(f"{silent:,} replies say neither yes nor no, and are {taken}")
        return ShapeMeasures(measures, derived, tuple(notes), described)  # type: ignore[arg-type]
    others = (scores[dev], labels[dev])
    if question.dev is not None:
        given = question.dev
        others = (given.scores[:, 0, 0].astype(np.float64), given.frame.match[:, 0, 0])
    best, note = _measure_best(s, truth, counted.clusters, others)
    measures |= best
    notes += note
    measures["true_score"] = Measure(s, truth, better="higher", shown=False)
    measures["false_score"] = Measure(s, ~truth, better="lower", shown=False)
    if truth.any() and not truth.all():
        derived["auroc"] = DerivedMetric("auroc", ("true_score", "false_score"), chance=0.5)
    if probable or threshold == math.log(0.5):  # log-probabilities of yes
        chances = s if probable else np.exp(np.minimum(s, 0.0))
        measures["probability"] = Measure(chances, everywhere, better="lower", shown=False)
        measures["truth"] = Measure(truth.astype(np.float64), everywhere, better=None, shown=False)
        derived["calibration_error"] = DerivedMetric("calibration", ("probability", "truth"))
    return ShapeMeasures(measures, derived, tuple(notes), described)  # type: ignore[arg-type]


def _cluster_by_prompt(frame: Frame) -> Frame:
    """Frame whose clusters are also of prompts, where the tag `prompt` names them."""
    return replace(frame, clusters=prompt_clusters(frame)) if "prompt" in frame.tags else frame


def _is_dev(frame: Frame) -> BoolArray:
    values = frame.tags.get("split")
    if values is None:
        return np.zeros(len(frame), dtype=np.bool_)
    return np.array([value == DEV for value in values], dtype=np.bool_)


def are_replies(scores: FloatArray) -> bool:
    """Whether scores are replies: yes (1), no (0) or neither (½)."""
    return bool(np.isin(scores, (0.0, NO_ANSWER, 1.0)).all())


def say_yes(scores: FloatArray, threshold: float, *, official: bool) -> tuple[BoolArray, BoolArray]:
    """Which judgements say yes, and which say neither yes nor no.

    A reply without an answer is a yes under the official protocol of the benchmarks here.
    """
    silent = np.asarray(scores == NO_ANSWER) & (threshold == NO_ANSWER) & are_replies(scores)
    if official:
        silent = np.zeros_like(silent)
    return np.asarray(scores >= threshold) & ~silent, silent


def _measure_threshold(
    scores: FloatArray, truth: BoolArray, threshold: float, *, official: bool
) -> dict[str, Measure]:
    """Measure the judgements at a threshold; a coin's chance is ½.

    F1 is 2 · true yes / (yes + fitting captions): a mean in which a true yes weighs twice.
    """
    yes, silent = say_yes(scores, threshold, official=official)
    ties = np.asarray(scores == threshold)
    right = ((yes == truth) & ~silent).astype(np.float64)
    hit = (yes & truth).astype(np.float64)
    everywhere, chance = np.ones(len(scores), dtype=np.bool_), np.full(len(scores), 0.5)
    counts = yes.astype(np.float64) + truth
    return {
        "accuracy": Measure(right, everywhere, ties, chance),
        "accuracy_true": Measure(right * truth, truth, ties, chance),
        "accuracy_false": Measure(right * ~truth, ~truth, ties, chance),
        "precision": Measure(hit, yes, ties, weights=np.ones(len(scores))),
        "recall": Measure(hit, truth, ties),
        "f1": Measure(hit, counts > 0, ties, weights=counts),
        "yes_share": Measure(yes.astype(np.float64), everywhere, ties, better=None),
    }


def _measure_best(
    scores: FloatArray,
    truth: BoolArray,
    clusters: IntArray | None,
    dev: tuple[FloatArray, BoolArray],
) -> tuple[dict[str, Measure], list[str]]:
    """Measure the judgements at the best threshold of other examples, and their margins.

    Its chance level is the share of the more frequent label, which one answer to all gets.
    """
    if len(dev[0]):
        threshold = metrics.best_threshold(*dev)
        limits = np.full(len(scores), threshold)
        note = f"best threshold {threshold:.4g}, chosen on {len(dev[0]):,} dev examples"
    else:
        fit = metrics.cross_fit(scores, truth, clusters)
        if fit is None:
            return {}, []
        limits = np.array(fit.thresholds)[fit.fold]
        low, high = min(fit.thresholds), max(fit.thresholds)
        note = (
            f"best threshold {low:.4g} to {high:.4g}, cross-fitted in {len(fit.thresholds)} folds"
        )
    majority = float(max(truth.mean(), 1 - truth.mean()))
    values = ((scores >= limits) == truth).astype(np.float64)
    everywhere = np.ones(len(scores), dtype=np.bool_)
    distance = scores - np.clip(limits, scores.min(), scores.max())
    return {
        BEST: Measure(values, everywhere, chance=np.full(len(scores), majority)),
        MARGIN: Measure(np.where(truth, -distance, distance), everywhere, better=None, shown=False),
    }, [note]


SHAPE = Shape(
    family="judgement",
    measure=_measure,
    main=BEST,
    contains=("accuracy",),
    chat=ChatMeasures({"yes-no": "accuracy"}),
)
