"""Images: captions that choose between images; the image score alone (COLA)."""

from __future__ import annotations

from contrapose.results.shapes.base import ChatMeasures, MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.comparisons import measure_wins


def _measure(question: MeasureInput) -> ShapeMeasures:
    return ShapeMeasures({"image": measure_wins(question, question.answers.scores, "image")})


SHAPE = Shape(
    family="images",
    measure=_measure,
    main="image",
    chat=ChatMeasures({"eqben": "group"}),
)
