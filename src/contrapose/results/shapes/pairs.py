"""Pairs: m images × n captions; text, image and group score (Winoground, EqBen)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from contrapose import metrics
from contrapose.data import Card
from contrapose.metrics import BoolArray, FloatArray, chance_levels
from contrapose.metrics.pairs import LARGEST_GROUP
from contrapose.results.measures import Better, DerivedMetric, Measure, measure_from_outcome
from contrapose.results.shapes.base import AVERAGE, ChatMeasures, MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.comparisons import caption_debiasing, measure_wins
from contrapose.scores import Answers

if TYPE_CHECKING:
    from contrapose.scores.outcomes import ChoiceOutcomes

LOWER: Better = "lower"

Side = Literal["text", "image"]


def _measure(question: MeasureInput) -> ShapeMeasures:
    if not isinstance(question.scores, Answers):
        from contrapose.scores.outcomes import ChoiceOutcomes

        if isinstance(question.scores, ChoiceOutcomes):
            return _measure_outcomes(question.scores, question.card)
    frame, scores = question.answers.frame, question.answers.scores
    text = measure_wins(question, question.by_caption, "text")
    image = measure_wins(question, scores, "image")
    # With the prior removed, text and image are decided by different scores.
    where = text.where & image.where
    tied = text.ties is not None and image.ties is not None
    both = Measure(
        text.values * image.values * where,
        where,
        text.ties | image.ties if tied else None,  # type: ignore[operator]
        chance_levels("group", frame.match, frame.present, where),
    )
    measures = {"text": text, "image": image, "group": both}
    measures |= _measure_matching(question)
    if question.card.single_choices:
        measures |= _measure_single_choices(question)
    derived: dict[str, DerivedMetric] = {}
    if question.card.average:
        derived[AVERAGE] = DerivedMetric("average", ("text", "image", "group"))
    if frame.match.shape[1:] == (2, 2) and frame.present.all():
        more, spreads = _measure_equivariance(scores)
        measures, derived = {**measures, **more}, {**derived, **spreads}
    return ShapeMeasures(measures, derived)


def _measure_matching(question: MeasureInput) -> dict[str, Measure]:
    """Measure GroupMatch, where all examples have as many captions as images, one for each.

    A language prior adds the same to all matchings, so that removing it changes nothing.
    """
    frame = question.answers.frame
    size = frame.match.shape[1]
    single = all((frame.match.sum(axis=axis) == 1).all() for axis in (1, 2))
    if not frame.present.all() or not single or not 2 <= size <= LARGEST_GROUP:
        return {}
    outcome = metrics.group_match(question.answers.scores, frame.match)
    return {"group_match": measure_from_outcome(outcome)}


def _measure_single_choices(question: MeasureInput) -> dict[str, Measure]:
    """Measure which images choose their caption, and which captions their image."""
    frame = question.answers.frame
    size = frame.match.shape[1]
    if frame.match.shape[1:] != (size, size) or not frame.present.all():
        return {}
    sides: tuple[tuple[Side, FloatArray, int], ...] = (
        ("text", question.by_caption, 1),
        ("image", question.answers.scores, 2),
    )
    measures: dict[str, Measure] = {}
    for side, scores, axis in sides:
        lines = [
            metrics.pair_wins(
                scores.take([i], axis), frame.match.take([i], axis), None, side, ties=question.ties
            )
            for i in range(size)
        ]
        wins, tied = (np.stack(arrays, axis=1) for arrays in zip(*lines, strict=True))
        measures |= _single_choice_measures(side, wins, tied, question.card.single_choices)
    return measures


def _single_choice_measures(
    side: Side, wins: BoolArray, tied: BoolArray | None, which: str
) -> dict[str, Measure]:
    """Share of single choices that are right; with "apart" also those of every position."""
    count, size = wins.shape
    where, chance = np.ones(count, dtype=np.bool_), np.full(count, 1 / size)
    ties = None if tied is None else np.asarray(tied.any(axis=1))
    measures = {f"{side}_single": Measure(wins.mean(axis=1), where, ties, chance)}
    if which == "apart":
        other = "image" if side == "text" else "caption"
        for i in range(size):
            ties = None if tied is None else tied[:, i]
            values = wins[:, i].astype(np.float64)
            measures[f"{side}_{other}_{i}"] = Measure(values, where, ties, chance)
    return measures


def _measure_outcomes(outcomes: ChoiceOutcomes, card: Card) -> ShapeMeasures:
    """Measure outcomes of single choices, of 2 × 2 examples that match along the diagonal."""
    units = (outcomes.ids, outcomes.tags, outcomes.clusters)
    if outcomes.image is None:
        right = outcomes.text[:, 0].astype(np.float64)
        everywhere = np.ones(len(right), dtype=np.bool_)
        single = Measure(right, everywhere, chance=np.full(len(right), 0.5))
        return ShapeMeasures({"text_single": single}, notes=outcomes.notes, units=units)  # type: ignore[arg-type]
    text, image = (np.asarray(wins.all(axis=1)) for wins in (outcomes.text, outcomes.image))
    where = np.ones(len(text), dtype=np.bool_)
    measures = {
        name: Measure(values.astype(np.float64), where, chance=np.full(len(text), chance))
        for name, values, chance in (
            ("text", text, 1 / 4),
            ("image", image, 1 / 4),
            ("group", text & image, 1 / 6),
        )
    }
    measures |= _single_choice_measures("text", outcomes.text, None, card.single_choices)
    measures |= _single_choice_measures("image", outcomes.image, None, card.single_choices)
    return ShapeMeasures(measures, notes=outcomes.notes, units=units)  # type: ignore[arg-type]


SPREADS: tuple[Literal["std", "mean_abs"], ...] = ("std", "mean_abs")


def _measure_equivariance(
    scores: FloatArray,
) -> tuple[dict[str, Measure], dict[str, DerivedMetric]]:
    """Equivariance scores (EqSim, section 3, loss v2): 0 for an equivariant model.

    Each example has its raw scores' e, mean and variance; the metrics standardize by the scores of
    the part that is reported.
    """
    both = metrics.equivariance(scores, standardize=False)
    where = np.ones(len(scores), dtype=np.bool_)
    raw = scores.astype(np.float64).reshape(len(scores), -1)
    measures = {
        name: Measure(values, where, better=better, shown=False)
        for name, values, better in (
            ("equivariance_text", both.text, LOWER),
            ("equivariance_image", both.image, LOWER),
            ("score_mean", raw.mean(axis=1), None),
            ("score_variance", raw.var(axis=1), None),
        )
    }
    derived = {
        f"equivariance_{side}_{kind}": DerivedMetric(
            kind, (f"equivariance_{side}", "score_mean", "score_variance")
        )
        for side in ("text", "image")
        for kind in SPREADS
    }
    return measures, derived


SHAPE = Shape(
    family="pairs",
    measure=_measure,
    main="group",
    debiasing=caption_debiasing("text"),
    blind=("text",),
    chat=ChatMeasures({"eqben": "group", "sugarcrepe": "text"}),
    contains=("image",),
)
