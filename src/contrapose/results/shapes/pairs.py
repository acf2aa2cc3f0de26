"""Pairs: m images × n captions; text, image and group score (Winoground, EqBen)."""

from __future__ import annotations

import numpy as np

from contrapose import metrics
from contrapose.metrics import FloatArray, chance_levels
from contrapose.results.measures import DerivedMetric, Measure
from contrapose.results.shapes.base import AVERAGE, ChatMeasures, MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.comparisons import caption_debiasing, measure_wins


def _measure(question: MeasureInput) -> ShapeMeasures:
    frame, scores = question.answers.frame, question.answers.scores
    text = measure_wins(question, question.by_caption, "text")
    image = measure_wins(question, scores, "image")
    # With the prior removed, text and image are decided by different scores.
    where = text.where & image.where
    tied = text.ties is not None and image.ties is not None
    both = Measure(
        text.values * image.values * where,
        where,
        text.ties | image.ties if tied else None,  # type: ignore[operator]
        chance_levels("group", frame.match, frame.present, where),
    )
    measures = {"text": text, "image": image, "group": both}
    derived = {}
    if question.card.average:
        derived[AVERAGE] = DerivedMetric("average", ("text", "image", "group"))
    if frame.match.shape[1:] == (2, 2) and frame.present.all():
        measures |= _measure_equivariance(scores)
    return ShapeMeasures(measures, derived)


def _measure_equivariance(scores: FloatArray) -> dict[str, Measure]:
    """Equivariance scores (EqSim, section 3, loss v2): 0 for an equivariant model."""
    both = metrics.equivariance(scores)
    where = np.ones(len(scores), dtype=np.bool_)
    measures: dict[str, Measure] = {}
    for side, values in (("text", both.text), ("image", both.image)):
        spread = Measure(values, where, summary="std", better="lower", grouped=False)
        size = Measure(np.abs(values), where, better="lower", grouped=False)
        measures |= {f"equivariance_{side}_std": spread, f"equivariance_{side}_mean_abs": size}
    return measures


SHAPE = Shape(
    family="pairs",
    measure=_measure,
    main="group",
    debiasing=caption_debiasing("text"),
    blind=("text",),
    chat=ChatMeasures({"eqben": "group", "sugarcrepe": "text"}),
    contains=("image",),
)
