"""Protocols: which examples the strict and the official protocol count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from contrapose.data import Card, TagValue
from contrapose.metrics import BoolArray
from contrapose.results.measures import Measurements

if TYPE_CHECKING:
    from contrapose.results.shapes.base import MeasureInput, Shape


DISPUTED = (
    "{} examples whose released answers are reported to be wrong are left out; the official "
    "protocol counts them"
)
"""Note of the strict protocol."""


def keep_counted_examples(question: MeasureInput, shape: Shape) -> MeasureInput:
    """Drop the examples that the protocol does not count, and note how many they are."""
    answers = question.answers
    if question.protocol == "official":
        keep, note = _official_mask(question, shape), "the official protocol leaves out {} examples"
    else:
        keep = ~disputed_mask(question.card, answers.frame.tags.get(_disputed_tag(question), ()))
        keep = keep if len(keep) and keep.any() else np.ones(len(answers.frame), dtype=np.bool_)
        note = DISPUTED
    if keep.all():
        return question
    chosen = np.flatnonzero(keep)
    captions = question.caption_scores
    notes = (*answers.notes, note.format(f"{int((~keep).sum()):,}"))
    return replace(
        question,
        scores=replace(answers.take(chosen), notes=notes),
        caption_scores=None if captions is None else captions[chosen],
    )


def _disputed_tag(question: MeasureInput) -> str:
    return question.card.disputed[0] if question.card.disputed else ""


def disputed_mask(card: Card, values: Sequence[TagValue]) -> BoolArray:
    """Examples whose released answers are reported to be wrong, by the values of their tag."""
    wrong = card.disputed[1] if card.disputed else None
    return np.array([value == wrong for value in values], dtype=np.bool_)


def drop_disputed(measured: Measurements, card: Card) -> Measurements:
    """Drop the units whose released answers are reported to be wrong, and note how many."""
    if card.disputed is None:
        return measured
    wrong = disputed_mask(card, measured.tags.get(card.disputed[0], ()))
    if not wrong.any() or wrong.all():
        return measured
    kept = measured.take(np.flatnonzero(~wrong))
    return replace(kept, notes=(*kept.notes, DISPUTED.format(f"{int(wrong.sum()):,}")))


def _official_mask(question: MeasureInput, shape: Shape) -> BoolArray:
    """Examples that the official script counts."""
    answers, card = question.answers, question.card
    keep = np.ones(len(answers.frame), dtype=np.bool_)
    if shape.official_mask is not None:
        keep &= shape.official_mask(question)
    if card.official_limit is not None:
        tag, limit = card.official_limit
        counts: dict[str, int] = {}
        for i, value in enumerate(answers.frame.tags.get(tag, ())):
            counts[str(value)] = counts.get(str(value), 0) + 1
            keep[i] &= counts[str(value)] <= limit
    return keep
