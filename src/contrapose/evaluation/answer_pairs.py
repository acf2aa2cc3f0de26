"""Questions with two answers, asked as they stand: the first answer against the second (`vqa`).

A benchmark whose card has `answers` names two words for each type of question, such as Yes and No,
or A and B. The score is P(first) / (P(first) + P(second)), above ½ where the first is likelier.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from contrapose.data import Card, Example
from contrapose.engine import ScoringContext, score_example_share, score_examples
from contrapose.metrics import IntArray
from contrapose.models import QuestionTemplate
from contrapose.scores import Answers, Skip, build_frame

TYPE_TAG = "type"
"""Tag that tells the type of a question."""
PAIR_THRESHOLD = 0.5
"""Above it the first answer is the likelier one."""


def has_answer_pairs(context: ScoringContext, card: Card, score: str) -> bool:
    """Whether `vqa` compares two answers; not where the user names an answer."""
    named = context.question.answer != QuestionTemplate().answer
    return score == "vqa" and bool(card.answers) and not named


def score_answer_pairs(context: ScoringContext, card: Card, examples: Sequence[Example]) -> Answers:
    """Score every question about every image by its two answers.

    Raises:
        InputError: the model cannot give `vqa`, or gives something that is no number.
    """
    frame = build_frame(examples)
    scores = np.full(frame.match.shape, np.nan)
    skipped: dict[str, Skip] = {}
    notes: dict[str, None] = {}
    for contexts, members in _iterate_types(context, card, examples):
        some = [examples[i] for i in members.tolist()]
        first, second = (score_examples(asked, "vqa", some) for asked in contexts)
        margins = first.scores.astype(np.float64) - second.scores
        images, texts = margins.shape[1:]
        scores[members, :images, :texts] = np.exp(-np.logaddexp(0.0, -margins))
        skipped |= {**first.skipped, **second.skipped}
        notes |= dict.fromkeys((*first.notes, *second.notes))
    return Answers(frame, scores, tuple(notes), skipped)


def score_answer_pair_share(
    context: ScoringContext, card: Card, examples: Sequence[Example]
) -> None:
    """Score the shard's share of the batches that `score_answer_pairs` cuts."""
    for contexts, members in _iterate_types(context, card, examples):
        for asked in contexts:
            score_example_share(asked, "vqa", [[examples[i] for i in members.tolist()]])


def describe_answer_pairs(context: ScoringContext, card: Card) -> tuple[str, str]:
    """Note for the results, and the full name of the score."""
    words = " or ".join(f"{first!r} against {second!r}" for first, second in card.answers.values())
    asked = "" if context.question.text == "{}" else f" {context.question.text!r}"
    where = f"the question{asked}" if asked else "the question as it stands"
    name = json.dumps([context.question.text, list(card.answers.values())], ensure_ascii=False)
    return f"vqa is the probability of {words} after {where}", f"vqa:pair:{name}"


def _iterate_types(
    context: ScoringContext, card: Card, examples: Sequence[Example]
) -> Iterator[tuple[list[ScoringContext], IntArray]]:
    """Contexts of the two answers, and the examples they answer, for each type of question."""
    for kind, words in card.answers.items():
        members = [i for i, example in enumerate(examples) if example.tags.get(TYPE_TAG) == kind]
        if members:
            questions = [replace(context.question, answer=word) for word in words]
            contexts = [replace(context, question=question) for question in questions]
            yield contexts, np.array(members, dtype=np.int64)
