"""Choice: one image with n captions of which one is right; accuracy (SugarCrepe, ARO, CREPE)."""

from __future__ import annotations

from contrapose.results.shapes.base import ChatMeasures, MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.comparisons import caption_debiasing, measure_wins


def _measure(question: MeasureInput) -> ShapeMeasures:
    return ShapeMeasures({"accuracy": measure_wins(question, question.by_caption, "text")})


SHAPE = Shape(
    family="choice",
    measure=_measure,
    main="accuracy",
    debiasing=caption_debiasing("accuracy"),
    blind=("accuracy",),
    chat=ChatMeasures({"sugarcrepe": "accuracy"}),
)
