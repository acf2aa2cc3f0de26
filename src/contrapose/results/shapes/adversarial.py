"""Adversarial retrieval: a gallery with captions that fit no image (RoCOCO).

Recall of the images' captions among all texts, how much of it the adversarial captions cost, and
how often one of them is the first.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from contrapose import metrics
from contrapose.errors import InputError
from contrapose.results.measures import Measure, measure_from_outcome, place_measures
from contrapose.results.shapes.base import MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.retrieval import KS, gallery_debiasing, read_gallery

MAIN = "image_to_text_r1"


def _measure(question: MeasureInput) -> ShapeMeasures:
    """Measure recalls, their fall and false recall; units are the images."""
    gallery, scores, pairs = read_gallery(question)
    adversarial = np.zeros(len(gallery.texts), dtype=np.bool_)
    adversarial[[text for _, text in gallery.distractors]] = True
    if not gallery.distractors or adversarial[pairs[:, 1]].any():
        raise InputError(f"{question.card.name} needs adversarial captions that fit no image.")
    plain = np.flatnonzero(~adversarial)
    plain_pairs = np.stack([pairs[:, 0], np.searchsorted(plain, pairs[:, 1])], axis=1)
    alone = metrics.recalls(scores[:, plain], plain_pairs, (1,))[MAIN]
    outcomes = metrics.recalls(scores, pairs, KS)
    recalls = {f"image_to_text_r{k}": outcomes[f"image_to_text_r{k}"] for k in KS}
    queries = np.unique(pairs[:, 0])
    plain_hits, everywhere = measure_from_outcome(alone), np.ones(len(queries), dtype=np.bool_)
    false = measure_from_outcome(metrics.false_recalls(scores[queries], adversarial))
    placed = {
        **{name: measure_from_outcome(outcome) for name, outcome in recalls.items()},
        "plain_r1": plain_hits,
        "r1_drop": Measure(plain_hits.values - recalls[MAIN].values, everywhere, better="lower"),
        "false_recall": replace(false, better="lower"),
    }
    keys = [image.key for image in gallery.images]
    return ShapeMeasures(
        place_measures([(queries, placed)], len(keys)),
        units=(
            tuple(f"image {key}" for key in keys),
            {},
            metrics.clusters_of([(k,) for k in keys]),
        ),
    )


SHAPE = Shape(
    family="adversarial",
    measure=_measure,
    main=MAIN,
    of="matrix",
    in_average=False,
    debiasing=gallery_debiasing(MAIN, text_queries=False),
)
