"""From answers to per-example outcomes: which metrics each family of benchmarks has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from contrapose import metrics
from contrapose.data import Card
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray
from contrapose.results.measured import Derived, Measure, Measured, from_outcome
from contrapose.scoring import Answers, Frame

Protocol = Literal["strict", "official"]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is to be measured.

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
        """What a tie is."""
        return self.card.official_ties if self.protocol == "official" else "wrong"

    @property
    def by_caption(self) -> FloatArray:
        """The scores that decide between captions."""
        return self.answers.scores if self.caption_scores is None else self.caption_scores


def measure(question: Question) -> Measured:
    """The outcomes of every example, by the benchmark's family.

    Raises:
        InputError: the family cannot be measured on examples of this shape.
    """
    if question.protocol == "official":
        question = _official_examples(question)
    frame = question.answers.frame
    measures, derived, notes = FAMILIES[question.card.family](question)
    notes = (*question.answers.notes, *notes)
    return Measured(frame.ids, frame.tags, frame.clusters, measures, derived, notes)


Part = tuple[dict[str, Measure], dict[str, Derived], tuple[str, ...]]


def _choice(question: Question) -> Part:
    return {"accuracy": _won(question, question.by_caption, "text")}, {}, ()


def _pairs(question: Question) -> Part:
    frame, scores = question.answers.frame, question.answers.scores
    text = _won(question, question.by_caption, "text")
    image = _won(question, scores, "image")
    # With the prior taken out, text and image are decided by different scores.
    where = text.where & image.where
    both = Measure(
        text.values * image.values * where,
        where,
        _either(text, image),
        _levels(frame, where, "group"),
    )
    found = {"text": text, "image": image, "group": both}
    derived = {}
    if question.card.average:
        derived["average"] = Derived("average", ("text", "image", "group"))
    if frame.match.shape[1:] == (2, 2) and frame.present.all():
        found |= _equivariance(scores)
    return found, derived, ()


def _equivariance(scores: FloatArray) -> dict[str, Measure]:
    """Equation v2 of EqSim as a measure of a model: 0 for an equivariant one."""
    both = metrics.equivariance(scores)
    where = np.ones(len(scores), dtype=np.bool_)
    found: dict[str, Measure] = {}
    for side, values in (("text", both.text), ("image", both.image)):
        spread = Measure(values, where, summary="std", better="lower", grouped=False)
        size = Measure(np.abs(values), where, better="lower", grouped=False)
        found |= {f"equivariance_{side}_std": spread, f"equivariance_{side}_mean_abs": size}
    return found


def _images(question: Question) -> Part:
    return {"image": _won(question, question.answers.scores, "image")}, {}, ()


def _triple(question: Question) -> Part:
    scores = _captions(question, 3)
    found = {
        "original_accuracy": from_outcome(metrics.original(scores)),
        "augmented_accuracy": from_outcome(metrics.augmented(scores)),
        "brittleness": replace(from_outcome(metrics.brittle(scores)), better="lower"),
    }
    values = metrics.mean_score(scores).values
    where = np.ones(len(values), dtype=np.bool_)
    found["mean_score"] = Measure(values, where, better=None)
    return found, {}, ()


def _foil(question: Question) -> Part:
    scores = _captions(question, 2)
    found = {"pairwise_accuracy": from_outcome(metrics.pairwise(scores))}
    derived = {"auroc": Derived("auroc", ("caption_score", "foil_score"), chance=0.5)}
    notes: tuple[str, ...] = ()
    threshold = _threshold(question)
    if threshold is None:
        notes = ("the scores are not probabilities: p_c and p_f need --threshold",)
    else:
        found["acc"] = from_outcome(metrics.acc(scores, threshold, protocol=question.protocol))
        found["p_c"] = from_outcome(metrics.p_c(scores, threshold))
        found["p_f"] = from_outcome(metrics.p_f(scores, threshold, protocol=question.protocol))
        derived["min_pc_pf"] = Derived("minimum", ("p_c", "p_f"))
    where = np.ones(len(scores), dtype=np.bool_)
    wide = scores.astype(np.float64)
    found["caption_score"] = Measure(wide[:, 0], where, better=None, shown=False)
    found["foil_score"] = Measure(wide[:, 1], where, better=None, shown=False)
    return found, derived, notes


FAMILIES: dict[str, Callable[[Question], Part]] = {
    "choice": _choice,
    "pairs": _pairs,
    "images": _images,
    "triple": _triple,
    "foil": _foil,
}


def primary(card: Card) -> str:
    """The metric by which α is chosen: the one that a choice among captions decides."""
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


def _either(a: Measure, b: Measure) -> BoolArray | None:
    return None if a.ties is None or b.ties is None else a.ties | b.ties


def _captions(question: Question, count: int) -> FloatArray:
    """The scores of one image's captions, k × count."""
    shape = question.answers.frame.match.shape[1:]
    if shape != (1, count):
        raise InputError(
            f"{question.card.name} needs 1 image and {count} captions an example, found "
            f"{shape[0]} × {shape[1]}."
        )
    return question.by_caption[:, 0, :]


Score = Literal["text", "image", "group"]


def _won(question: Question, scores: FloatArray, score: Score) -> Measure:
    """Text or image score of the examples that have something to tell apart."""
    frame = question.answers.frame
    where = _decides(frame, axis=2 if score == "text" else 1)
    function = metrics.text_score if score == "text" else metrics.image_score
    chosen = np.flatnonzero(where)
    values, ties = np.zeros(len(where)), np.zeros(len(where), dtype=np.bool_)
    if chosen.size:
        won = function(
            scores[chosen], frame.match[chosen], frame.present[chosen], ties=question.ties
        )
        values[chosen], ties[chosen] = won.values, won.ties
    return Measure(values, where, ties, _levels(frame, where, score))


def _levels(frame: Frame, where: BoolArray, score: Score) -> FloatArray | None:
    """Chance levels example by example; examples with one match matrix share theirs."""
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


def _threshold(question: Question) -> float | None:
    """The threshold asked for; ½ for scores that are all probabilities and spread about it."""
    scores = question.by_caption
    if question.threshold is None and scores.min() >= 0 and 0.5 < scores.max() <= 1:
        return 0.5
    return question.threshold


def _decides(frame: Frame, axis: int) -> BoolArray:
    """Examples with at least one line along the axis that holds both a right and a wrong pair."""
    right = np.any(frame.match & frame.present, axis=axis)
    wrong = np.any(~frame.match & frame.present, axis=axis)
    return np.asarray(np.any(right & wrong, axis=1))


def _official_examples(question: Question) -> Question:
    """Drop the examples that the official script does not count."""
    answers, card = question.answers, question.card
    keep = np.ones(len(answers.frame), dtype=np.bool_)
    threshold = _threshold(question) if card.family == "foil" else None
    if threshold is not None:
        keep &= metrics.kept_officially(_captions(question, 2), threshold)
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
