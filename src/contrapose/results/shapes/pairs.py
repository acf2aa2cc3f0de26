"""Pairs: m images × n captions; text, image and group score (Winoground, EqBen)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from contrapose import metrics
from contrapose.metrics import FloatArray, chance_levels
from contrapose.results.measures import Better, DerivedMetric, Measure
from contrapose.results.shapes.base import AVERAGE, ChatMeasures, MeasureInput, Shape, ShapeMeasures
from contrapose.results.shapes.comparisons import caption_debiasing, measure_wins

LOWER: Better = "lower"


def _measure(question: MeasureInput) -> ShapeMeasures:
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
    if question.card.single_choices:
        measures |= _measure_single_choices(question)
    derived: dict[str, DerivedMetric] = {}
    if question.card.average:
        derived[AVERAGE] = DerivedMetric("average", ("text", "image", "group"))
    if frame.match.shape[1:] == (2, 2) and frame.present.all():
        more, spreads = _measure_equivariance(scores)
        measures, derived = {**measures, **more}, {**derived, **spreads}
    return ShapeMeasures(measures, derived)


def _measure_single_choices(question: MeasureInput) -> dict[str, Measure]:
    """Shares of an example's images that choose their caption, and of captions their image."""
    frame, measures = question.answers.frame, {}
    size = frame.match.shape[1]
    if frame.match.shape[1:] != (size, size) or not frame.present.all():
        return {}
    sides: tuple[tuple[Literal["text", "image"], FloatArray, int], ...] = (
        ("text", question.by_caption, 1),
        ("image", question.answers.scores, 2),
    )
    for side, scores, axis in sides:
        lines = [
            metrics.pair_wins(
                scores.take([i], axis), frame.match.take([i], axis), None, side, ties=question.ties
            )
            for i in range(size)
        ]
        wins, tied = (np.stack(arrays, axis=1) for arrays in zip(*lines, strict=True))
        where = np.ones(len(frame), dtype=np.bool_)
        chance = np.full(len(frame), 1 / size)
        ties = np.asarray(tied.any(axis=1))
        measures[f"{side}_single"] = Measure(wins.mean(axis=1), where, ties, chance)
    return measures


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
