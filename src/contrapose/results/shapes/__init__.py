"""Shapes of benchmarks: one module for each, with its metrics and all that depends on it."""

from contrapose.results.shapes.base import (
    AVERAGE,
    ChatMeasures,
    Debiasing,
    MatrixScores,
    MeasureInput,
    MistakeRule,
    Protocol,
    Shape,
    ShapeMeasures,
)
from contrapose.results.shapes.registry import (
    find_shape,
    main_metric,
    measure,
    register_metric,
    shapes,
)

__all__ = [
    "AVERAGE",
    "ChatMeasures",
    "Debiasing",
    "MatrixScores",
    "MeasureInput",
    "MistakeRule",
    "Protocol",
    "Shape",
    "ShapeMeasures",
    "find_shape",
    "main_metric",
    "measure",
    "register_metric",
    "shapes",
]
