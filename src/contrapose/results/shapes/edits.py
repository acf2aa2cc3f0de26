"""Edits: image queries with one word changed, looked up in a database (SIMAT, equation 1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrapose import metrics
from contrapose.data import DEV, EditSet
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.results.measures import Measure
from contrapose.results.shapes.base import MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.retrieval import require_matrix

SPLIT_NOTE = (
    "simat_n1 and simat_n5 are of the test queries alone; those of the dev queries, on which λ is "
    "chosen, end in _dev"
)


def _measure(question: MeasureInput) -> ShapeMeasures:
    """Measure whether one of the nearest images fits the target caption.

    The official script leaves the query's image out only where it ranks first, and takes the
    earlier of equal images. Test and dev queries are measured apart: λ is chosen on dev.
    """
    scores, edits = question.matrix.scores, question.matrix.data
    if not isinstance(edits, EditSet):
        raise InputError(f"{question.card.name} needs edit queries.")
    queries = edits.queries
    require_matrix(scores, (len(queries), len(edits.images)), "queries, database images")
    fits = edits.fits()
    start = np.array([query.image for query in queries], dtype=np.int64)
    targets = np.array([query.target_caption for query in queries], dtype=np.int64)
    weights = np.array([query.weight for query in queries])
    hits = (_official_hits if question.protocol == "official" else _strict_hits)(
        scores, start, fits, targets, edits.depths
    )
    right = fits.sum(axis=0)[targets] - fits[start, targets]
    measures: dict[str, Measure] = {}
    splits = [query.tags.get("split", "") for query in queries]
    for split in sorted(set(splits), key=lambda name: name == DEV):
        where = np.array([name == split for name in splits], dtype=np.bool_)
        for n, (values, ties) in hits.items():
            name = f"simat_n{n}_dev" if split == DEV else f"simat_n{n}"
            chance = metrics.edit_chance(right, len(edits.images) - 1, n)
            measures[name] = Measure(values * where, where, ties & where, chance, weights)
    notes = (SPLIT_NOTE,) if DEV in splits else ()
    judge = edits.judge or "the annotations: an image fits its own caption alone"
    notes = (*notes, f"whether an image fits a caption is decided by {judge}")
    names = dict.fromkeys(name for query in queries for name in query.tags)
    tags = {name: tuple(query.tags.get(name, "") for query in queries) for name in names}
    clusters = metrics.clusters_of([(edits.images[query.image].key,) for query in queries])
    ids = tuple(query.id for query in queries)
    return ShapeMeasures(measures, notes=notes, units=(ids, tags, clusters))


Hits = dict[int, tuple[FloatArray, BoolArray]]
"""By the number of answers that count: whether each query is right, and whether a tie decides."""


def _strict_hits(
    scores: FloatArray, start: IntArray, fits: BoolArray, targets: IntArray, depths: Sequence[int]
) -> Hits:
    at_least, above = metrics.count_edit_rivals(scores, start, fits, targets)
    return {n: ((at_least < n).astype(np.float64), (above < n) & (at_least >= n)) for n in depths}


def _official_hits(
    scores: FloatArray, start: IntArray, fits: BoolArray, targets: IntArray, depths: Sequence[int]
) -> Hits:
    nearest = metrics.rank_edits(scores, start, max(depths), skip="if first")
    hits = fits[nearest, targets[:, None]]
    outcomes = {n: metrics.best_of(hits, n) for n in depths}
    return {n: (outcome.values, outcome.ties) for n, outcome in outcomes.items()}


SHAPE = Shape(family="edits", measure=_measure, main="simat_n1", of="matrix", in_average=False)
