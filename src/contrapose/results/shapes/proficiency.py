"""Proficiency: a test and a simpler one that it rests on, for one video (ViLMA).

Both are choices of a caption among foils. An item counts in the combined accuracy when both of its
tests are right. The tag `subset` says which test an example is, the tag `item` which belong
together.
"""

from __future__ import annotations

import numpy as np

from contrapose.errors import InputError
from contrapose.results.measures import Measure
from contrapose.results.shapes.base import MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.comparisons import caption_debiasing, measure_wins
from contrapose.results.shapes.sets import group_codes, measure_union, union_clusters

TESTS = {"test": "test_accuracy", "proficiency": "proficiency_accuracy"}
"""Value of the tag `subset` → metric: the paper's T and P."""

COMBINED = "combined_accuracy"
"""The paper's P+T."""


def _measure(question: MeasureInput) -> ShapeMeasures:
    frame = question.answers.frame
    tests = [str(value) for value in frame.tags.get("subset", ())]
    if not set(tests) & set(TESTS):
        raise InputError(f"{question.card.name} needs the tag subset: test or proficiency.")
    single = measure_wins(question, question.by_caption, "text")
    measures = {}
    for test, name in TESTS.items():
        where = np.array([value == test for value in tests], dtype=np.bool_) & single.where
        if where.any():
            measures[name] = Measure(
                np.where(where, single.values, 0.0),
                where,
                None if single.ties is None else single.ties & where,
                single.chance,
            )
    codes = group_codes(frame, "item", least=2)
    notes = question.answers.notes
    if codes is None:
        return ShapeMeasures(measures, notes=(*notes, "no item has both of its tests"))
    measures[COMBINED] = measure_union(single, codes)
    units = (frame.ids, frame.tags, union_clusters(frame, ("item",)))
    return ShapeMeasures(measures, notes=notes, units=units)


SHAPE = Shape(
    family="proficiency",
    measure=_measure,
    main=COMBINED,
    debiasing=caption_debiasing("test_accuracy"),
    blind=("test_accuracy", "proficiency_accuracy", COMBINED),
)
