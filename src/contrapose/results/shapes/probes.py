"""Probes: one caption with an image that fits and one that does not (SVO-Probes).

The image score compares the two images. The paper judges every pair alone and averages the
accuracies of both kinds, each of distinct pairs of sentence and image.
"""

from __future__ import annotations

import numpy as np

from contrapose.errors import InputError, option
from contrapose.metrics import BoolArray
from contrapose.results.measures import DerivedMetric, Measure
from contrapose.results.shapes.base import MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.comparisons import measure_wins
from contrapose.scores import Frame


def _measure(question: MeasureInput) -> ShapeMeasures:
    frame = question.answers.frame
    if frame.match.shape[1:] != (2, 1):
        raise InputError(f"{question.card.name} needs 2 images and 1 caption an example.")
    scores = question.answers.scores
    measures = {"image": measure_wins(question, scores, "image")}
    threshold = question.choose_threshold(scores)
    if threshold is None:
        note = f"the scores are not probabilities: balanced_accuracy needs {option('threshold')}"
        return ShapeMeasures(measures, notes=(note,))
    chance = np.full(len(frame), 0.5)
    for image, name in enumerate(("accuracy_true", "accuracy_false")):
        yes = scores[:, image, 0] >= threshold
        right = yes == frame.match[:, image, 0]
        where = _first_of_pair(frame, image)
        ties = np.asarray(scores[:, image, 0] == threshold) & where
        measures[name] = Measure(right.astype(np.float64) * where, where, ties, chance)
    average = DerivedMetric("average", ("accuracy_true", "accuracy_false"), chance=0.5)
    return ShapeMeasures(measures, {"balanced_accuracy": average})


def _first_of_pair(frame: Frame, image: int) -> BoolArray:
    """Mask of the examples that are the first with their sentence and this image."""
    first = np.ones(len(frame), dtype=np.bool_)
    if frame.image_keys is None or frame.texts is None:
        return first
    known: set[tuple[str, str]] = set()
    for i, (keys, texts) in enumerate(zip(frame.image_keys, frame.texts, strict=True)):
        pair = " ".join(texts[0].lower().split()), keys[image]
        first[i] = pair not in known
        known.add(pair)
    return first


SHAPE = Shape(family="probes", measure=_measure, main="image", contains=("image",))
