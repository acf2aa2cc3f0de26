"""Composed retrieval: an image and a text are the query, a gallery of images is ranked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from contrapose import metrics
from contrapose.data import ImageRef
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.results.measures import DerivedMetric, Measure
from contrapose.results.shapes.base import MeasureInput, Shape, ShapeMeasures

if TYPE_CHECKING:
    from contrapose.metrics import RankedLists
    from contrapose.scores.rankings import ComposedRankings

MEAN_RECALL = "mean_recall"


def _measure(question: MeasureInput) -> ShapeMeasures:
    """Measure recall and average precision of every query; units are the queries.

    Queries that share a reference image are one cluster.
    """
    from contrapose.scores.rankings import ComposedRankings, list_sizes

    rankings = question.scores
    if not isinstance(rankings, ComposedRankings):
        raise InputError(f"{question.card.name} needs rankings of composed queries.")
    data = rankings.data
    relevant = np.array([len(query.relevant) for query in data.queries], dtype=np.int64)
    measures: dict[str, Measure] = {}
    if rankings.gallery is not None and relevant.any():
        sizes = list_sizes(data)
        for k in data.recall_at:
            measures[f"r{k}"] = _measure_recall(rankings.gallery, k, sizes, relevant)
        for k in data.precision_at:
            measures[f"map{k}"] = _measure_precision(rankings.gallery, k, sizes, relevant)
        first = rankings.gallery.first
        measures["rank"] = Measure(first.astype(np.float64), first > 0, better="lower", shown=False)
    if rankings.subset is not None and relevant.any():
        sizes = np.array([len(query.subset) for query in data.queries], dtype=np.int64)
        for k in data.subset_recall_at:
            measures[f"subset_r{k}"] = _measure_recall(rankings.subset, k, sizes, relevant)
    derived = {}
    if {"r5", "subset_r1"} <= measures.keys():
        derived["mean_r5_subset_r1"] = DerivedMetric("average", ("r5", "subset_r1"))
    elif {"r10", "r50"} == {name for name in measures if measures[name].shown}:
        derived[MEAN_RECALL] = DerivedMetric("average", ("r10", "r50"))
    names = dict.fromkeys(name for query in data.queries for name in query.tags)
    tags = {name: tuple(query.tags.get(name, "") for query in data.queries) for name in names}
    photographs = (data.images[query.image] for query in data.queries)
    clusters = metrics.clusters_of([(_name_photograph(image),) for image in photographs])
    ids = tuple(query.id for query in data.queries)
    return ShapeMeasures(measures, derived, _notes(rankings), (ids, tags, clusters))


def _name_photograph(image: ImageRef) -> str:
    """Name of the photograph: crops of one file are one photograph."""
    return image.key if image.crop is None else str((image.path, image.cell))


def _measure_recall(lists: RankedLists, k: int, sizes: IntArray, relevant: IntArray) -> Measure:
    chance = metrics.recall_chances(sizes, relevant, k) if np.all(sizes) else None
    return _compare(lists, relevant > 0, lambda hits: metrics.recall_at(hits, k), chance)


def _measure_precision(lists: RankedLists, k: int, sizes: IntArray, relevant: IntArray) -> Measure:
    known = np.maximum(relevant, 1)
    chance = metrics.average_precision_chances(sizes, known, k) if np.all(sizes) else None
    return _compare(
        lists, relevant > 0, lambda hits: metrics.average_precision_at(hits, known, k), chance
    )


def _compare(
    lists: RankedLists,
    where: BoolArray,
    function: Callable[[BoolArray], FloatArray],
    chance: FloatArray | None,
) -> Measure:
    """Measure of the ranking in which ties lose; a tie is where winning it would be better."""
    values = function(lists.hits)
    return Measure(values, where, ties=function(lists.lucky_hits) > values, chance=chance)


def _notes(rankings: ComposedRankings) -> tuple[str, ...]:
    data = rankings.data
    stays = "stays in" if data.keep_reference else "is left out of"
    notes = [data.rule] if data.rule else []
    notes.append(f"a query's own image {stays} its ranking")
    if not any(query.relevant for query in data.queries):
        notes.append("the right images are not public: export the run for the evaluation server")
    return (*notes, *rankings.notes)


SHAPE = Shape(family="composed", measure=_measure, main="r1", of="matrix", in_average=False)
