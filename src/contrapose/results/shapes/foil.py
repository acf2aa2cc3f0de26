"""Foil: one image with a caption and a foil; pairwise accuracy and precisions (VALSE)."""

from __future__ import annotations

import numpy as np

from contrapose import metrics
from contrapose.errors import option
from contrapose.metrics import BoolArray
from contrapose.results.measures import DerivedMetric, Measure, measure_from_outcome
from contrapose.results.shapes.base import ChatMeasures, MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.comparisons import caption_debiasing


def _measure(question: MeasureInput) -> ShapeMeasures:
    scores = question.one_image_scores(2)
    measures = {"pairwise_accuracy": measure_from_outcome(metrics.pairwise_accuracy(scores))}
    derived = {"auroc": DerivedMetric("auroc", ("caption_score", "foil_score"), chance=0.5)}
    notes: tuple[str, ...] = ()
    threshold = _choose_threshold(question)
    if threshold is None:
        notes = (f"the scores are not probabilities: p_c and p_f need {option('threshold')}",)
    else:
        protocol = question.protocol
        measures |= {
            "acc": measure_from_outcome(metrics.acc(scores, threshold, protocol=protocol)),
            "p_c": measure_from_outcome(metrics.p_c(scores, threshold)),
            "p_f": measure_from_outcome(metrics.p_f(scores, threshold, protocol=protocol)),
        }
        derived["min_pc_pf"] = DerivedMetric("minimum", ("p_c", "p_f"))
        if question.threshold is None:
            notes = ("the scores, all between 0 and 1, are taken for probabilities in p_c and p_f",)
    where = np.ones(len(scores), dtype=np.bool_)
    for i, name in enumerate(("caption_score", "foil_score")):
        values = scores[:, i].astype(np.float64)
        measures[name] = Measure(values, where, better=None, shown=False)
    return ShapeMeasures(measures, derived, notes)


def _choose_threshold(question: MeasureInput) -> float | None:
    """Threshold of the request; ½ for scores that may be probabilities on both sides of it."""
    scores = question.by_caption
    one_side = question.threshold is None and scores.max() <= 0.5
    return None if one_side else question.choose_threshold(scores)


def _official_mask(question: MeasureInput) -> BoolArray:
    threshold = _choose_threshold(question)
    if threshold is None:
        return np.ones(len(question.answers.frame), dtype=np.bool_)
    return metrics.official_mask(question.one_image_scores(2), threshold)


SHAPE = Shape(
    family="foil",
    measure=_measure,
    main="pairwise_accuracy",
    debiasing=caption_debiasing("pairwise_accuracy"),
    blind=("pairwise_accuracy",),
    chat=ChatMeasures({"sugarcrepe": "pairwise_accuracy"}),
    official_mask=_official_mask,
)
