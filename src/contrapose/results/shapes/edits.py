"""Edits: image queries with one word changed, looked up in a database (SIMAT, equation 1)."""

from __future__ import annotations

import numpy as np

from contrapose import metrics
from contrapose.data import EditSet
from contrapose.errors import InputError
from contrapose.results.measures import Measure
from contrapose.results.shapes.base import MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.retrieval import require_matrix


def _measure(question: MeasureInput) -> ShapeMeasures:
    """Measure whether one of the nearest images fits the target caption.

    The official script leaves the query's image out only where it ranks first.
    """
    from contrapose.data.benchmarks.simat import load_oracle

    scores, edits = question.matrix.scores, question.matrix.data
    if not isinstance(edits, EditSet):
        raise InputError(f"{question.card.name} needs edit queries.")
    queries = edits.queries
    require_matrix(scores, (len(queries), len(edits.images)), "queries, database images")
    fits = load_oracle(question.matrix.root, edits)
    start = np.array([query.image for query in queries], dtype=np.int64)
    targets = np.array([query.target_caption for query in queries], dtype=np.int64)
    weights = np.array([query.weight for query in queries])
    official = question.protocol == "official"
    nearest = metrics.rank_edits(
        scores, start, max(edits.depths), skip="if first" if official else "always"
    )
    hits = fits[nearest, targets[:, None]] > 0.5
    where = np.ones(len(queries), dtype=np.bool_)
    measures = {
        f"simat_n{n}": Measure(metrics.best_of(hits, n).values, where, weights=weights)
        for n in edits.depths
    }
    names = dict.fromkeys(name for query in queries for name in query.tags)
    tags = {name: tuple(query.tags.get(name, "") for query in queries) for name in names}
    clusters = metrics.clusters_of([(edits.images[query.image].key,) for query in queries])
    return ShapeMeasures(measures, units=(tuple(query.id for query in queries), tags, clusters))


SHAPE = Shape(family="edits", measure=_measure, main="simat_n1", of="matrix", in_average=False)
