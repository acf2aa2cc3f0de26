"""Triple: one image with original caption, hard negative and hard positive (SugarCrepe++)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from contrapose import metrics
from contrapose.metrics import AlphaIntervals, FloatArray, IntArray
from contrapose.results.measures import Measure, measure_from_outcome
from contrapose.results.shapes.base import (
    ChatMeasures,
    Debiasing,
    MeasureInput,
    Shape,
    ShapeMeasures,
)


def _measure(question: MeasureInput) -> ShapeMeasures:
    scores = question.one_image_scores(3)
    values = metrics.mean_score(scores).values
    where = np.ones(len(values), dtype=np.bool_)
    return ShapeMeasures(
        {
            "original_accuracy": measure_from_outcome(metrics.original_accuracy(scores)),
            "augmented_accuracy": measure_from_outcome(metrics.augmented_accuracy(scores)),
            "brittleness": replace(
                measure_from_outcome(metrics.brittleness(scores)), better="lower"
            ),
            "mean_score": Measure(values, where, better=None),
        }
    )


def _intervals(question: MeasureInput, log_prior: FloatArray) -> tuple[AlphaIntervals, None]:
    return metrics.augmented_intervals(question.answers.scores[:, 0], log_prior), None


def _add_chat_measures(
    measures: dict[str, Measure], answers: IntArray, right: IntArray
) -> dict[str, Measure]:
    """Add the original accuracy and the brittleness to the measures of chat replies."""
    original = metrics.multiple_choice(answers[:, 0], right[:, 0]).mean
    hits = answers == right[:, :, None]
    one = (hits[:, 0] != hits[:, 1]) & (answers != metrics.UNPARSABLE).all(axis=1)
    main = measures["augmented_accuracy"]
    half = np.full(len(answers), 0.5)
    return {
        "original_accuracy": replace(main, values=original.values, chance=half),
        **measures,
        "brittleness": replace(main, values=one.mean(axis=1), chance=half, better="lower"),
    }


SHAPE = Shape(
    family="triple",
    measure=_measure,
    main="augmented_accuracy",
    debiasing=Debiasing("augmented_accuracy", _intervals),
    blind=("augmented_accuracy", "original_accuracy", "brittleness"),
    # Each of the two right captions against the wrong one.
    chat=ChatMeasures(
        {"sugarcrepe": "augmented_accuracy"}, ((0, 1), (2, 1)), more=_add_chat_measures
    ),
)
