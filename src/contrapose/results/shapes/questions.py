"""Questions: 2 questions × 2 images, each answered with one of two words (NaturalBench).

The match matrix says where the first answer (yes, or A) is right. A score is the probability of the
first answer; a score on the threshold is no answer, and wrong: so is a reply that names none.
"""

from __future__ import annotations

import numpy as np

from contrapose.errors import InputError, option
from contrapose.metrics import BoolArray
from contrapose.results.measures import MARGIN, Measure
from contrapose.results.shapes.base import MeasureInput, Shape, ShapeMeasures


def _measure(question: MeasureInput) -> ShapeMeasures:
    frame = question.answers.frame
    images, texts = frame.match.shape[1:]
    if min(images, texts) < 2 or not frame.present.all():
        raise InputError(
            f"{question.card.name} needs as many images and questions in all examples, at least "
            "two of both."
        )
    scores = question.answers.scores.astype(np.float64)
    threshold = question.choose_threshold(scores)
    if threshold is None:
        raise InputError(
            f"{question.card.name} needs probabilities of the first answer or replies: say with "
            f"{option('threshold')} above which score the answer is yes."
        )
    right = np.where(frame.match, scores > threshold, scores < threshold)
    ties = np.asarray((scores == threshold).any(axis=(1, 2)))
    away = np.where(frame.match, threshold - scores, scores - threshold)
    measures = {
        "question": _share(np.asarray(right.all(axis=1)), ties, 0.5**images),
        "image": _share(np.asarray(right.all(axis=2)), ties, 0.5**texts),
        "single": _share(right.reshape(len(frame), -1), ties, 0.5),
        "group": _share(np.asarray(right.all(axis=(1, 2)))[:, None], ties, 0.5 ** (images * texts)),
        MARGIN: Measure(
            away.max(axis=(1, 2)), np.ones(len(frame), dtype=np.bool_), better=None, shown=False
        ),
    }
    return ShapeMeasures(measures)


def _share(right: BoolArray, ties: BoolArray, chance: float) -> Measure:
    """Measure the share of an example's questions, images or answers that are right."""
    where = np.ones(len(right), dtype=np.bool_)
    return Measure(right.mean(axis=1), where, ties, np.full(len(right), chance))


SHAPE = Shape(family="questions", measure=_measure, main="group", contains=("image",))
