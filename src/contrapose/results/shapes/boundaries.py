"""Boundaries: frames of a video × 2 captions; the time at which one caption gives way to the other.

The grounding score of adjacent frames is s(I_t, T₁) + s(I_{t+1}, T₂). A language prior adds the
same number to all of them, so that removing it changes no prediction, and captions alone decide
nothing.
"""

from __future__ import annotations

import math

import numpy as np

from contrapose import metrics
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.results.measures import Measure
from contrapose.results.shapes.base import MeasureInput, Shape, ShapeMeasures
from contrapose.scores import Frame

MEAN_ACCURACY = "mean_accuracy"
"""Mean over all thresholds, the paper's average."""


def _measure(question: MeasureInput) -> ShapeMeasures:
    """Measure the distance of every predicted boundary; units are the boundaries.

    The chance level of a boundary is that of a pair of adjacent frames taken at random.
    """
    frame, scores = question.answers.frame, question.answers.scores
    if frame.match.shape[2] != 2:
        raise InputError(
            f"{question.card.name} needs 2 captions an example, before and after the boundary."
        )
    inside = frame.present.all(axis=2)
    counts = inside.sum(axis=1)
    if (counts < 2).any():
        raise InputError(f"example {frame.ids[int((counts < 2).argmax())]}: fewer than two frames.")
    first, fps = _read_numbers(frame, "first", 0.0), _read_numbers(frame, "fps")
    times = first[:, None] + np.arange(inside.shape[1]) / fps[:, None]
    predicted = metrics.predict_boundaries(
        scores[:, :, 0][inside],
        scores[:, :, 1][inside],
        times[inside],
        np.concatenate([[0], np.cumsum(counts)]),
        _read_numbers(frame, "time"),
    )
    where = np.ones(len(frame), dtype=np.bool_)
    chances = [predicted.chance_within(threshold) for threshold in metrics.THRESHOLDS]
    measures = {
        f"within_{threshold:g}s": Measure(
            predicted.within(threshold).astype(np.float64),
            where,
            predicted.ties,
            chance,
        )
        for threshold, chance in zip(metrics.THRESHOLDS, chances, strict=True)
    }
    mean = Measure(
        np.mean([measure.values for measure in measures.values()], axis=0),
        where,
        predicted.ties,
        np.mean(chances, axis=0),
    )
    rates = ", ".join(f"{rate:g}" for rate in np.unique(fps).tolist())
    note = f"frames at {rates} a second; the boundary is predicted midway between two of them"
    return ShapeMeasures(
        {
            MEAN_ACCURACY: mean,
            **measures,
            "error_seconds": Measure(predicted.errors, where, better="lower"),
            "predicted_time": Measure(predicted.times, where, better=None, shown=False),
        },
        notes=(note,),
    )


def _read_numbers(frame: Frame, tag: str, default: float | None = None) -> FloatArray:
    """Numbers of a tag, one for each example.

    Raises:
        InputError: an example has none, or it is no finite number; a rate is positive.
    """
    numbers = np.empty(len(frame))
    for i, value in enumerate(frame.tags.get(tag, ("",) * len(frame))):
        try:
            number = default if value == "" and default is not None else float(str(value))
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or (tag == "fps" and number <= 0):
            raise InputError(f"example {frame.ids[i]}: the tag {tag!r} is no number of seconds.")
        numbers[i] = number
    return numbers


def find_mistake(scores: FloatArray, match: BoolArray) -> tuple[float, IntArray]:
    """Find how far the best wrong pair of frames is ahead of the true one, and both pairs.

    Args:
        scores: frames × 2.
        match: frames × 2, true for the caption before up to the boundary.

    Returns:
        The margin, negative where the true pair wins, and the positions of two to four frames.
    """
    grounding = metrics.boundary_scores(scores[:, 0], scores[:, 1])
    true = min(max(int(match[:, 0].sum()) - 1, 0), len(grounding) - 1)
    others = grounding.copy()
    others[true] = -np.inf
    best = int(others.argmax())
    positions = np.unique([true, true + 1, best, best + 1])
    return float(others[best] - grounding[true]), positions


SHAPE = Shape(
    family="boundaries",
    measure=_measure,
    main=MEAN_ACCURACY,
    in_average=False,
    mistake=find_mistake,
)
