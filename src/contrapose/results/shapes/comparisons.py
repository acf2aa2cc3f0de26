"""Comparisons shared by shapes: text and image wins with chance levels, and caption debiasing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from contrapose import metrics
from contrapose.arrays import find_distinct
from contrapose.data.text_columns import TextRows
from contrapose.metrics import (
    BoolArray,
    FloatArray,
    IntArray,
    chance_levels,
    join_clusters,
    pair_wins,
)
from contrapose.results.measures import Measure
from contrapose.results.shapes.base import Debiasing, MeasureInput
from contrapose.scores import Frame


def measure_wins(
    question: MeasureInput, scores: FloatArray, side: Literal["text", "image"]
) -> Measure:
    """Measure the text or image score of the examples that have something to tell apart."""
    frame = question.answers.frame
    where = _is_decidable(frame, axis=2 if side == "text" else 1)
    chosen = np.flatnonzero(where)
    values, ties = np.zeros(len(where)), np.zeros(len(where), dtype=np.bool_)
    if chosen.size:
        values[chosen], ties[chosen] = pair_wins(
            scores[chosen], frame.match[chosen], frame.present[chosen], side, ties=question.ties
        )
    return Measure(values, where, ties, chance_levels(side, frame.match, frame.present, where))


def _is_decidable(frame: Frame, axis: int) -> BoolArray:
    """Mask of the examples with a line along the axis that holds a right and a wrong pair."""
    right = np.any(frame.match & frame.present, axis=axis)
    wrong = np.any(~frame.match & frame.present, axis=axis)
    return np.asarray(np.any(right & wrong, axis=1))


def caption_debiasing(metric: str) -> Debiasing:
    """Debiasing of examples in which the right captions must score above the wrong ones."""

    def intervals(
        question: MeasureInput, log_prior: FloatArray
    ) -> tuple[metrics.AlphaIntervals, None]:
        answers = question.answers
        frame = answers.frame
        return metrics.text_intervals(answers.scores, log_prior, frame.match, frame.present), None

    return Debiasing(metric, intervals)


def prompt_clusters(frame: Frame) -> IntArray:
    """Clusters of examples that share an image or a prompt: the tag `prompt`, else the caption."""
    named = frame.tags.get("prompt")
    if named is None and frame.texts is not None:
        codes = _find_captions(frame.texts)
    else:
        distinct, codes = find_distinct(named or ("",) * len(frame))
        unknown = np.array([not prompt for prompt in distinct], dtype=np.bool_)[codes]
        codes = np.where(unknown, len(distinct) + np.arange(len(codes)), codes)
    return join_clusters([codes] if frame.clusters is None else [codes, frame.clusters])


def _find_captions(captions: Sequence[tuple[str, ...]]) -> IntArray:
    """Code of the captions of each example; of one caption each, without building them."""
    if isinstance(captions, TextRows) and len(captions.texts) == len(captions):
        return captions.texts.find_distinct()[1]
    return find_distinct(captions)[1]
