"""Classes: a gallery of images × class names; top-1 and top-5 accuracy."""

from __future__ import annotations

import numpy as np

from contrapose import metrics
from contrapose.results.measures import measure_from_outcome
from contrapose.results.shapes.base import MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.retrieval import gallery_debiasing, read_gallery


def _measure(question: MeasureInput) -> ShapeMeasures:
    gallery, scores, pairs = read_gallery(question)
    labels = np.zeros(len(gallery.images), dtype=np.int64)
    labels[pairs[:, 0]] = pairs[:, 1]
    measures = {
        f"top{k}": measure_from_outcome(metrics.top_k(scores, labels, k))
        for k in (1, 5)
        if k < len(gallery.texts)
    }
    keys = tuple(image.key for image in gallery.images)
    tags = {"class": tuple(gallery.texts[label] for label in labels)}
    units = keys, tags, metrics.clusters_of([(key,) for key in keys])
    return ShapeMeasures(measures, units=units)


SHAPE = Shape(
    family="classes",
    measure=_measure,
    main="top1",
    of="matrix",
    in_average=False,
    debiasing=gallery_debiasing("top1", text_queries=False),
)
