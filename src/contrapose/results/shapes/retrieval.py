"""Retrieval: a gallery of N images × M captions; recall at k in both directions."""

from __future__ import annotations

import numpy as np

from contrapose import metrics
from contrapose.data import Gallery
from contrapose.errors import InputError
from contrapose.metrics import FloatArray, IntArray
from contrapose.results.measures import DerivedMetric, measure_from_outcome, place_measures
from contrapose.results.shapes.base import Debiasing, MeasureInput, Shape, ShapeMeasures

KS = (1, 5, 10)


def read_gallery(question: MeasureInput) -> tuple[Gallery, FloatArray, IntArray]:
    """Gallery of the input, its scores (images × texts) and the pairs that belong together.

    Raises:
        InputError: the scores are not those of a gallery, or of another size.
    """
    scores, gallery = question.matrix.scores, question.matrix.data
    if not isinstance(gallery, Gallery):
        raise InputError(f"{question.card.name} needs a gallery.")
    require_matrix(scores, (len(gallery.images), len(gallery.texts)), "images, texts")
    return gallery, scores, np.array(gallery.pairs, dtype=np.int64)


def require_matrix(scores: FloatArray, shape: tuple[int, int], axes: str) -> None:
    """Check the shape of a score matrix.

    Raises:
        InputError: it has another shape.
    """
    if scores.shape != shape:
        raise InputError(f"scores of shape {scores.shape}; expected {shape} ({axes}).")


def gallery_debiasing(metric: str, *, text_queries: bool) -> Debiasing:
    """Debiasing of the ranking of texts for every image of a gallery.

    All images have the same prior of a text, so that the ranking of images does not move.
    """

    def intervals(
        question: MeasureInput, log_prior: FloatArray
    ) -> tuple[metrics.AlphaIntervals, FloatArray]:
        gallery, scores, pairs = read_gallery(question)
        first = metrics.first_intervals(scores, log_prior, pairs)
        texts = len(gallery.texts) if text_queries else 0  # units of which α decides nothing
        weights = np.zeros(len(gallery.images) + texts)
        weights[pairs[:, 0]] = 1.0
        padded = metrics.AlphaIntervals(
            np.pad(first.lower, ((0, texts), (0, 0)), constant_values=np.inf),
            np.pad(first.upper, ((0, texts), (0, 0)), constant_values=-np.inf),
        )
        return padded, weights

    return Debiasing(metric, intervals)


def _measure(question: MeasureInput) -> ShapeMeasures:
    """Measure the recalls; units are the images, then the texts.

    A text is in the cluster of the image that it belongs to.
    """
    gallery, scores, pairs = read_gallery(question)
    images, texts = len(gallery.images), len(gallery.texts)
    outcomes = metrics.recalls(scores, pairs, KS)
    if question.matrix.from_text is not None:
        other = metrics.recalls(question.matrix.from_text, pairs, KS)
        outcomes |= {name: other[name] for name in other if name.startswith("text_to_image")}
    queries = np.unique(pairs[:, 0]), images + np.unique(pairs[:, 1])
    measures = place_measures(
        (
            (queries[name.startswith("text_to_image")], {name: measure_from_outcome(outcome)})
            for name, outcome in outcomes.items()
        ),
        images + texts,
    )
    image_of_text = np.zeros(texts, dtype=np.int64)
    image_of_text[pairs[:, 1]] = pairs[:, 0]
    keys = [image.key for image in gallery.images]
    clusters = metrics.clusters_of([(key,) for key in keys])
    ids = (*(f"image {key}" for key in keys), *map(gallery.text_name, range(texts)))
    return ShapeMeasures(
        measures,
        {"mean_recall": DerivedMetric("average", tuple(measures))},
        units=(ids, {}, np.concatenate((clusters, clusters[image_of_text]))),
    )


SHAPE = Shape(
    family="retrieval",
    measure=_measure,
    main="mean_recall",
    of="matrix",
    in_average=False,
    debiasing=gallery_debiasing("image_to_text_r1", text_queries=True),
    contains=("image_to_text_r1",),
)
