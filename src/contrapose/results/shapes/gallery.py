"""Measuring galleries, class lists and edit queries from a matrix of scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from contrapose import metrics
from contrapose.data import Card, EditSet, Gallery, TagValue
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray
from contrapose.results.measures import DerivedMetric, Measure, Measurements
from contrapose.scores.arrays import read_matrix

KS = (1, 5, 10)


def measure_gallery(
    scores: Path | FloatArray,
    gallery: Gallery,
    card: Card,
    *,
    from_text: FloatArray | None = None,
) -> Measurements:
    """Measure recall at k in both directions for retrieval; top-1 and top-5 for classes.

    The units are queries: every image, then, for retrieval, every text. Texts cluster with the
    image they belong to. The scores are images × texts, or a file of them; `from_text` ranks the
    images of every text, where that is another ranking.
    """
    images, texts = len(gallery.images), len(gallery.texts)
    matrix = _load_matrix(scores, (images, texts), "images, texts")
    pairs = np.array(gallery.pairs, dtype=np.int64)
    keys = [image.key for image in gallery.images]
    clusters = metrics.clusters_of([(key,) for key in keys])
    if card.family == "classes":
        labels = np.zeros(images, dtype=np.int64)
        labels[pairs[:, 0]] = pairs[:, 1]
        tags: dict[str, tuple[TagValue, ...]] = {
            "class": tuple(gallery.texts[label] for label in labels)
        }
        found = {}
        for k in (1, 5):
            if k < texts:
                found[f"top{k}"] = _pad_outcome(metrics.top_k(matrix, labels, k), images, 0)
        return Measurements(tuple(keys), tags, clusters, found)

    image_of_text = np.zeros(texts, dtype=np.int64)
    image_of_text[pairs[:, 1]] = pairs[:, 0]
    units = images + texts
    outcomes = metrics.recalls(matrix, pairs, KS)
    if from_text is not None:
        other = metrics.recalls(from_text, pairs, KS)
        outcomes |= {name: other[name] for name in other if name.startswith("text_to_image")}
    found = {
        name: _pad_outcome(outcome, units, 0 if name.startswith("image_to_text") else images)
        for name, outcome in outcomes.items()
    }
    ids = (*(f"image {key}" for key in keys), *(f"text {i}" for i in range(texts)))
    together = np.concatenate((clusters, clusters[image_of_text]))
    derived = {"mean_recall": DerivedMetric("average", tuple(found))}
    return Measurements(ids, {}, together, found, derived)


def measure_edits(
    scores: Path | FloatArray, edits: EditSet, root: Path | None, *, official: bool = False
) -> Measurements:
    """Measure the SIMAT score: whether one of the nearest 1 or 5 images fits the target caption.

    Args:
        scores: similarity of every query's edited vector to every database image, or its file.
        edits: the queries.
        official: leave the query's own image out only where it ranks first, as the released
            script does.
        root: where an oracle's matrix may lie; without one an image fits exactly its own caption.
    """
    from contrapose.data.benchmarks.simat import load_oracle

    queries = edits.queries
    shape = (len(queries), len(edits.images))
    matrix = _load_matrix(scores, shape, "queries, database images")
    fits = load_oracle(root, edits)
    start = np.array([query.image for query in queries], dtype=np.int64)
    wanted = np.array([query.target_caption for query in queries], dtype=np.int64)
    weights = np.array([query.weight for query in queries])
    nearest = metrics.rank_edits(matrix, start, 5, skip="if first" if official else "always")
    hits = fits[nearest, wanted[:, None]] > 0.5
    where = np.ones(len(queries), dtype=np.bool_)
    found = {
        f"simat_n{n}": Measure(metrics.best_of(hits, n).values, where, weights=weights)
        for n in (1, 5)
    }
    names = dict.fromkeys(name for query in queries for name in query.tags)
    tags = {name: tuple(query.tags.get(name, "") for query in queries) for name in names}
    clusters = metrics.clusters_of([(edits.images[query.image].key,) for query in queries])
    return Measurements(tuple(query.id for query in queries), tags, clusters, found)


def _load_matrix(scores: Path | FloatArray, shape: tuple[int, int], what: str) -> FloatArray:
    if isinstance(scores, Path):
        return read_matrix(scores, shape, what)
    if scores.shape != shape:
        raise InputError(f"scores of shape {scores.shape}; expected {shape} ({what}).")
    return scores


def _pad_outcome(outcome: metrics.Outcome, units: int, first: int) -> Measure:
    """Pad an outcome of some of the units to all of them."""
    size = len(outcome.values)
    inside = slice(first, first + size)
    values, ties, where, chance = np.zeros(units), *_false_masks(units, 2), np.zeros(units)
    values[inside], ties[inside], where[inside] = outcome.values, outcome.ties, True
    if outcome.chance is None:
        return Measure(values, where, ties)
    chance[inside] = outcome.chance
    return Measure(values, where, ties, chance)


def _false_masks(units: int, count: int) -> list[BoolArray]:
    return [np.zeros(units, dtype=np.bool_) for _ in range(count)]
