"""Measuring by benchmark shape: which metrics each family has, from scores of examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from contrapose import metrics
from contrapose.data import Card
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray
from contrapose.results.measures import DerivedMetric, Measure, Measurements, measure_from_outcome
from contrapose.scores.answers import Answers, Frame

Protocol = Literal["strict", "official"]


@dataclass(frozen=True, slots=True, eq=False)
class MeasureInput:
    """Input of measuring: scores, card, protocol and threshold.

    Attributes:
        answers: the examples and their scores.
        card: the benchmark.
        protocol: "strict", where ties are never wins, or what the official script does.
        threshold: above it a caption counts as fitting (VALSE's p_c and p_f); None takes ½ for
            scores that are all probabilities and leaves those metrics out otherwise.
        caption_scores: scores to choose captions by, when they are not the answers' own: with
            the language prior taken out. They never touch the choice between images.
    """

    answers: Answers
    card: Card
    protocol: Protocol = "strict"
    threshold: float | None = None
    caption_scores: FloatArray | None = None

    @property
    def ties(self) -> Literal["wrong", "right"]:
        """Outcome of a tie: wrong, or right under some official protocols."""
        return self.card.official_ties if self.protocol == "official" else "wrong"

    @property
    def by_caption(self) -> FloatArray:
        """Scores that decide between captions."""
        return self.answers.scores if self.caption_scores is None else self.caption_scores


def measure(question: MeasureInput) -> Measurements:
    """Measure every example by the metrics of the benchmark's family.

    Raises:
        InputError: the family cannot be measured on examples of this shape.
    """
    if question.protocol == "official":
        question = _keep_official_examples(question)
    frame = question.answers.frame
    measures, derived, notes = FAMILIES[question.card.family](question)
    notes = (*question.answers.notes, *notes)
    return Measurements(frame.ids, frame.tags, frame.clusters, measures, derived, notes)


FamilyMeasures = tuple[dict[str, Measure], dict[str, DerivedMetric], tuple[str, ...]]


def _measure_choice(question: MeasureInput) -> FamilyMeasures:
    return {"accuracy": _measure_wins(question, question.by_caption, "text")}, {}, ()


def _measure_pairs(question: MeasureInput) -> FamilyMeasures:
    frame, scores = question.answers.frame, question.answers.scores
    text = _measure_wins(question, question.by_caption, "text")
    image = _measure_wins(question, scores, "image")
    # With the prior taken out, text and image are decided by different scores.
    where = text.where & image.where
    both = Measure(
        text.values * image.values * where,
        where,
        _merge_ties(text, image),
        _chance_levels(frame, where, "group"),
    )
    found = {"text": text, "image": image, "group": both}
    derived = {}
    if question.card.average:
        derived["average"] = DerivedMetric("average", ("text", "image", "group"))
    if frame.match.shape[1:] == (2, 2) and frame.present.all():
        found |= _measure_equivariance(scores)
    return found, derived, ()


def _measure_equivariance(scores: FloatArray) -> dict[str, Measure]:
    """Equivariance measures (EqSim, equation v2): 0 for an equivariant model."""
    both = metrics.equivariance(scores)
    where = np.ones(len(scores), dtype=np.bool_)
    found: dict[str, Measure] = {}
    for side, values in (("text", both.text), ("image", both.image)):
        spread = Measure(values, where, summary="std", better="lower", grouped=False)
        size = Measure(np.abs(values), where, better="lower", grouped=False)
        found |= {f"equivariance_{side}_std": spread, f"equivariance_{side}_mean_abs": size}
    return found


def _measure_images(question: MeasureInput) -> FamilyMeasures:
    return {"image": _measure_wins(question, question.answers.scores, "image")}, {}, ()


def _measure_triple(question: MeasureInput) -> FamilyMeasures:
    scores = _caption_scores(question, 3)
    found = {
        "original_accuracy": measure_from_outcome(metrics.original_accuracy(scores)),
        "augmented_accuracy": measure_from_outcome(metrics.augmented_accuracy(scores)),
        "brittleness": replace(measure_from_outcome(metrics.brittleness(scores)), better="lower"),
    }
    values = metrics.mean_score(scores).values
    where = np.ones(len(values), dtype=np.bool_)
    found["mean_score"] = Measure(values, where, better=None)
    return found, {}, ()


def _measure_foil(question: MeasureInput) -> FamilyMeasures:
    scores = _caption_scores(question, 2)
    found = {"pairwise_accuracy": measure_from_outcome(metrics.pairwise_accuracy(scores))}
    derived = {"auroc": DerivedMetric("auroc", ("caption_score", "foil_score"), chance=0.5)}
    notes: tuple[str, ...] = ()
    threshold = _resolve_threshold(question)
    if threshold is None:
        notes = ("the scores are not probabilities: p_c and p_f need --threshold",)
    else:
        found["acc"] = measure_from_outcome(
            metrics.acc(scores, threshold, protocol=question.protocol)
        )
        found["p_c"] = measure_from_outcome(metrics.p_c(scores, threshold))
        found["p_f"] = measure_from_outcome(
            metrics.p_f(scores, threshold, protocol=question.protocol)
        )
        derived["min_pc_pf"] = DerivedMetric("minimum", ("p_c", "p_f"))
    where = np.ones(len(scores), dtype=np.bool_)
    wide = scores.astype(np.float64)
    found["caption_score"] = Measure(wide[:, 0], where, better=None, shown=False)
    found["foil_score"] = Measure(wide[:, 1], where, better=None, shown=False)
    return found, derived, notes


FAMILIES: dict[str, Callable[[MeasureInput], FamilyMeasures]] = {
    "choice": _measure_choice,
    "pairs": _measure_pairs,
    "images": _measure_images,
    "triple": _measure_triple,
    "foil": _measure_foil,
}


def primary_metric(card: Card) -> str:
    """Primary metric, by which α is chosen: the one that a choice among captions decides."""
    names = {
        "choice": "accuracy",
        "pairs": "text",
        "triple": "augmented_accuracy",
        "foil": "pairwise_accuracy",
    }
    if card.family not in names:
        raise InputError(
            f"{card.name} has no choice among captions, so taking out a prior changes nothing."
        )
    return names[card.family]


def _merge_ties(a: Measure, b: Measure) -> BoolArray | None:
    return None if a.ties is None or b.ties is None else a.ties | b.ties


def _caption_scores(question: MeasureInput, count: int) -> FloatArray:
    """Scores of one image's captions, k × count."""
    shape = question.answers.frame.match.shape[1:]
    if shape != (1, count):
        raise InputError(
            f"{question.card.name} needs 1 image and {count} captions an example, found "
            f"{shape[0]} × {shape[1]}."
        )
    return question.by_caption[:, 0, :]


PairScore = Literal["text", "image", "group"]


def _measure_wins(question: MeasureInput, scores: FloatArray, score: PairScore) -> Measure:
    """Measure the text or image score of the examples that have something to tell apart."""
    frame = question.answers.frame
    where = _is_decidable(frame, axis=2 if score == "text" else 1)
    function = metrics.text_score if score == "text" else metrics.image_score
    chosen = np.flatnonzero(where)
    values, ties = np.zeros(len(where)), np.zeros(len(where), dtype=np.bool_)
    if chosen.size:
        won = function(
            scores[chosen], frame.match[chosen], frame.present[chosen], ties=question.ties
        )
        values[chosen], ties[chosen] = won.values, won.ties
    return Measure(values, where, ties, _chance_levels(frame, where, score))


def _chance_levels(frame: Frame, where: BoolArray, score: PairScore) -> FloatArray | None:
    """Chance level of each example; examples with one match matrix share theirs."""
    chance = {
        "text": metrics.text_chance,
        "image": metrics.image_chance,
        "group": metrics.group_chance,
    }[score]
    chosen = np.flatnonzero(where)
    levels = np.zeros(len(where))
    cells = np.where(frame.present, 1 + frame.match, 0).astype(np.uint8).reshape(len(where), -1)
    if chosen.size and (cells[chosen] == cells[chosen[0]]).all():
        kinds = np.zeros(chosen.size, dtype=np.int64)
        firsts = chosen[:1]
    else:
        _, first, kinds = np.unique(cells[chosen], axis=0, return_index=True, return_inverse=True)
        firsts = chosen[first]
    for kind, example in enumerate(firsts):
        level = chance(frame.match[example : example + 1], frame.present[example : example + 1])
        if level is None:
            return None
        levels[chosen[kinds == kind]] = level
    return levels


def _resolve_threshold(question: MeasureInput) -> float | None:
    """Threshold of the request; ½ for scores that are probabilities on both sides of it."""
    scores = question.by_caption
    if question.threshold is None and scores.min() >= 0 and 0.5 < scores.max() <= 1:
        return 0.5
    return question.threshold


def _is_decidable(frame: Frame, axis: int) -> BoolArray:
    """Mask of the examples with a line along the axis that holds a right and a wrong pair."""
    right = np.any(frame.match & frame.present, axis=axis)
    wrong = np.any(~frame.match & frame.present, axis=axis)
    return np.asarray(np.any(right & wrong, axis=1))


def _keep_official_examples(question: MeasureInput) -> MeasureInput:
    """Drop the examples that the official script does not count."""
    answers, card = question.answers, question.card
    keep = np.ones(len(answers.frame), dtype=np.bool_)
    threshold = _resolve_threshold(question) if card.family == "foil" else None
    if threshold is not None:
        keep &= metrics.official_mask(_caption_scores(question, 2), threshold)
    if card.official_limit is not None:
        tag, limit = card.official_limit
        seen: dict[str, int] = {}
        for i, value in enumerate(answers.frame.tags.get(tag, ())):
            seen[str(value)] = seen.get(str(value), 0) + 1
            keep[i] &= seen[str(value)] <= limit
    if keep.all():
        return question
    chosen = np.flatnonzero(keep)
    captions = question.caption_scores
    note = f"the official protocol leaves out {int((~keep).sum()):,} examples"
    return replace(
        question,
        answers=replace(answers.take(chosen), notes=(*answers.notes, note)),
        caption_scores=None if captions is None else captions[chosen],
    )
