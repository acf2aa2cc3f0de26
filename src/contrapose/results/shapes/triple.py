"""Triple: one image with original caption, hard negative and hard positive (SugarCrepe++)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from contrapose import metrics
from contrapose.metrics import FloatArray, IntArray
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
            # The two halves of brittleness describe it; they are not tested beside it.
            "original_only": replace(
                measure_from_outcome(metrics.original_only(scores)), better=None
            ),
            "positive_only": replace(
                measure_from_outcome(metrics.positive_only(scores)), better=None
            ),
            "mean_score": Measure(values, where, better=None),
        }
    )


def _intervals(
    question: MeasureInput, log_prior: FloatArray
) -> tuple[metrics.AlphaIntervals, None]:
    return metrics.augmented_intervals(question.answers.scores[:, 0], log_prior), None


def _add_chat_measures(
    measures: dict[str, Measure], answers: IntArray, right: IntArray
) -> dict[str, Measure]:
    """Add the original accuracy, brittleness and its two halves to the measures of chat."""
    original = metrics.multiple_choice(answers[:, 0], right[:, 0]).mean
    hits = answers == right[:, :, None]
    parsed = (answers != metrics.UNPARSABLE).all(axis=1)
    original_alone = (hits[:, 0] & ~hits[:, 1] & parsed).mean(axis=1)
    positive_alone = (hits[:, 1] & ~hits[:, 0] & parsed).mean(axis=1)
    main = measures["augmented_accuracy"]
    half, quarter = np.full(len(answers), 0.5), np.full(len(answers), 0.25)
    brittle = original_alone + positive_alone
    return {
        "original_accuracy": replace(main, values=original.values, chance=half),
        **measures,
        "brittleness": replace(main, values=brittle, chance=half, better="lower"),
        "original_only": replace(main, values=original_alone, chance=quarter, better=None),
        "positive_only": replace(main, values=positive_alone, chance=quarter, better=None),
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
