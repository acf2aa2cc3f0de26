"""Sets: choices that count together; accuracy of examples, of pairs and of sets (What'sUp).

A pair, or a set, is right when all of its examples are. The tags `pair` and `set` say which
examples belong together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrapose.arrays import find_distinct
from contrapose.errors import option
from contrapose.metrics import IntArray, clusters_of
from contrapose.results.measures import Measure
from contrapose.results.shapes.base import ChatMeasures, MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.comparisons import caption_debiasing, measure_wins
from contrapose.scores import Frame

UNIONS = ("pair", "set")
"""Tags that join examples, and the names of their metrics."""


def _measure(question: MeasureInput) -> ShapeMeasures:
    frame = question.answers.frame
    single = measure_wins(question, question.by_caption, "text")
    measures = {"accuracy": single}
    for tag in UNIONS:
        codes = group_codes(frame, tag, least=2)
        if codes is not None:
            measures[tag] = measure_union(single, codes)
    if len(measures) == 1:
        note = f"pairs and sets of examples are not known here; {option('root', 'DIR')} gives them"
        return ShapeMeasures(measures, notes=(*question.answers.notes, note))
    units = (frame.ids, frame.tags, union_clusters(frame, UNIONS))
    return ShapeMeasures(measures, notes=question.answers.notes, units=units)


def union_clusters(frame: Frame, unions: Sequence[str]) -> IntArray:
    """Clusters of examples that share an image or a union.

    Examples of one set stand or fall together, so that the bootstrap must draw them together.
    """
    keys = [
        {(tag, values[i]) for tag in unions if (values := frame.tags.get(tag, ())) and values[i]}
        | {("cluster", i if frame.clusters is None else int(frame.clusters[i]))}
        for i in range(len(frame))
    ]
    return clusters_of(keys)


def group_codes(frame: Frame, tag: str, *, least: int) -> IntArray | None:
    """Number of the union of each example, −1 for none; None where there are no unions.

    Unions of fewer than `least` examples do not count.
    """
    names, codes = find_distinct([str(value) for value in frame.tags.get(tag, ())])
    kept = np.array([name != "" for name in names], dtype=np.bool_)
    kept &= np.bincount(codes, minlength=len(names)) >= least
    return np.where(kept[codes], codes, -1) if kept.any() else None


def measure_union(single: Measure, codes: IntArray) -> Measure:
    """Measure whether all examples of a union are right, at the first of them.

    Chance is the product of theirs.
    """
    first = np.zeros(len(codes), dtype=np.bool_)
    groups, positions = np.unique(codes, return_index=True)
    first[positions[groups >= 0]] = True
    size = int(codes.max()) + 1
    inside = codes >= 0
    right, chance, tied = np.ones(size), np.ones(size), np.zeros(size, dtype=np.bool_)
    levels = np.ones(len(codes)) if single.chance is None else single.chance
    np.minimum.at(right, codes[inside], single.values[inside])
    np.multiply.at(chance, codes[inside], levels[inside])
    if single.ties is not None:
        np.logical_or.at(tied, codes[inside], single.ties[inside])
    return Measure(right[codes] * first, first, tied[codes] & first, chance[codes])


def _join_orders(frame: Frame, measures: dict[str, Measure]) -> tuple[dict[str, Measure], IntArray]:
    """Add pairs and sets of chat replies: all right in an order of the options, mean of orders."""
    orders = [m for name, m in measures.items() if name.startswith("right_at_") and m.where.all()]
    more: dict[str, Measure] = {}
    for tag in UNIONS if orders else ():
        codes = group_codes(frame, tag, least=2)
        if codes is not None:
            unions = [measure_union(order, codes) for order in orders]
            values = np.mean([union.values for union in unions], axis=0)
            more[tag] = Measure(values, unions[0].where, chance=unions[0].chance)
    first = next(iter(measures), "")
    added = {name: m for name, m in measures.items() if name == first} | more
    return {**added, **measures}, union_clusters(frame, UNIONS)


SHAPE = Shape(
    family="sets",
    measure=_measure,
    main="accuracy",
    debiasing=caption_debiasing("accuracy"),
    blind=("accuracy",),
    chat=ChatMeasures({"sugarcrepe": "accuracy"}, join=_join_orders),
)
