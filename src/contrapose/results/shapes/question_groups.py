"""Question groups: yes/no questions that count together by figure and question (HallusionBench).

Accuracy is of single questions (aAcc). A figure is right when all questions about it are (fAcc),
a question when it is right for all its figures (qAcc). The tags `figure` and `question` say which
examples belong together.
"""

from __future__ import annotations

import numpy as np

from contrapose.errors import InputError, option
from contrapose.metrics import BoolArray
from contrapose.results.measures import MARGIN, Measure
from contrapose.results.shapes.base import ChatMeasures, MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.judgement import NO_ANSWER, are_replies, say_yes
from contrapose.results.shapes.sets import group_codes, measure_union, union_clusters

UNIONS = ("figure", "question")
"""Tags that join examples, and the names of their metrics."""


def _measure(question: MeasureInput) -> ShapeMeasures:
    frame = question.answers.frame
    if frame.match.shape[1:] != (1, 1):
        raise InputError(f"{question.card.name} needs 1 image and 1 question an example.")
    scores = question.answers.scores[:, 0, 0].astype(np.float64)
    truth = np.asarray(frame.match[:, 0, 0])
    threshold = question.threshold
    if threshold is None and scores.min() >= 0 and scores.max() <= 1:
        threshold = NO_ANSWER
    if threshold is None:
        raise InputError(
            f"{question.card.name} needs probabilities of yes, or replies: say with "
            f"{option('threshold')} from which score on the answer is yes."
        )
    yes, silent = say_yes(scores, threshold, official=False)
    right = (yes == truth) & ~silent
    notes = list(question.answers.notes)
    if silent.any():
        notes.append(f"{int(silent.sum()):,} replies say neither yes nor no")
        if question.protocol == "official":  # who does not know without a figure does not invent
            right |= silent & _has_no_figure(question)
    everywhere = np.ones(len(frame), dtype=np.bool_)
    ties = np.asarray(scores == threshold)
    single = Measure(right.astype(np.float64), everywhere, ties, np.full(len(frame), 0.5))
    away = np.where(truth, threshold - scores, scores - threshold)
    measures = {"accuracy": single}
    for tag in UNIONS:
        codes = group_codes(frame, tag, least=1)
        if codes is not None:
            measures[tag] = measure_union(single, codes)
    measures["yes_share"] = Measure(yes.astype(np.float64), everywhere, ties, better=None)
    measures[MARGIN] = Measure(away, everywhere, better=None, shown=False)
    if not are_replies(scores):
        notes.append(f"yes is a score of at least {threshold:.4g}")
    units = (frame.ids, frame.tags, union_clusters(frame, UNIONS))
    return ShapeMeasures(measures, notes=tuple(notes), units=units)


def _has_no_figure(question: MeasureInput) -> BoolArray:
    """Questions that are asked without a figure."""
    frame = question.answers.frame
    values = frame.tags.get("figure", ("?",) * len(frame))
    return np.array([value == "" for value in values], dtype=np.bool_)


SHAPE = Shape(
    family="question_groups",
    measure=_measure,
    main="accuracy",
    chat=ChatMeasures({"yes-no": "accuracy"}),
)
