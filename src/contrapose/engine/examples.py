"""Scores of examples, in the shape of the examples: every score type of every pair, and priors.

Several vectors of an image lie end to end in one row, q · d numbers; a caption has d, which tells
how many there are. Everything is done in pieces, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrapose.data import Example
from contrapose.engine.context import ScoringContext
from contrapose.engine.parts import ListColumn
from contrapose.engine.plan import ScoringPlan, distinct_texts, plan_examples
from contrapose.engine.prior_images import NoiseImages, OtherImages
from contrapose.engine.priors import compute_priors
from contrapose.engine.score_types import LIKELIHOOD_SCORES, require_score
from contrapose.engine.scoring import (
    build_blind_request,
    build_pair_request,
    compute_caption_ids,
    embed_distinct,
    score_blind,
    score_missing,
    truncation_notes,
)
from contrapose.errors import InputError
from contrapose.files.records import gc_paused
from contrapose.metrics import FloatArray, IntArray
from contrapose.scores.answers import Answers, Frame, build_frame
from contrapose.scores.skips import UNKNOWN_SKIP, Skip

MAX_CELLS = 1 << 23
"""Numbers that one piece of the work holds at the most."""


def pair_cosines(images: FloatArray, texts: FloatArray, pairs: IntArray) -> FloatArray:
    """Cosine of each pair in float64, (p,); the largest where an image has several vectors.

    Args:
        images: (n, q · d); NaN where there is none.
        texts: (m, d).
        pairs: (p, 2) positions in them.
    """
    found = np.full(len(pairs), np.nan)
    if not images.size or not texts.size:  # not one of them has a vector
        return found
    width = texts.shape[1]
    step = max(1, MAX_CELLS // images.shape[1])
    for start in range(0, len(pairs), step):
        some = pairs[start : start + step]
        several = images[some[:, 0]].astype(np.float64).reshape(len(some), -1, width)
        right = texts[some[:, 1]].astype(np.float64)
        found[start : start + len(some)] = np.einsum("pqd,pd->pq", several, right).max(axis=1)
    return found


def grid_cosines(images: FloatArray, texts: FloatArray) -> FloatArray:
    """Cosine of all images with all texts in float32, (n, m), blockwise in bounded memory."""
    width = texts.shape[1]
    several = images.shape[1] // width
    if several == 1:
        return np.asarray(images @ texts.T)
    found = np.empty((len(images), len(texts)), dtype=np.float32)
    step = max(1, MAX_CELLS // (several * len(texts)))
    for start in range(0, len(images), step):
        some = images[start : start + step]
        each = some.reshape(-1, width) @ texts.T
        found[start : start + step] = each.reshape(len(some), several, -1).max(axis=1)
    return found


LOGPROBS_COLUMN = "logprobs"
"""The column of token log-probabilities in the store."""


def score_pairs(asking: ScoringContext, score: str, plan: ScoringPlan) -> FloatArray:
    """Score every pair of the plan, (p,); NaN for skipped pairs."""
    if score == "itc":
        images, texts = embed_distinct(asking, plan.images, plan.image_ids, plan.texts)
        return pair_cosines(images, texts, plan.pairs)
    if score == "prior":
        return compute_priors(asking, plan.texts, examples=plan)[plan.pairs[:, 1]]
    if score == "blind":
        return score_blind(asking, plan.texts)[plan.pairs[:, 1]]
    question = build_pair_request(asking, score, plan)
    (rows,) = score_missing(question)
    return question.answer_table.values(rows)


def score_pair_tokens(asking: ScoringContext, score: str, plan: ScoringPlan) -> ListColumn:
    """Return the token log-probabilities of every pair of the plan, `lm` or `blind`.

    Empty for those that cannot be asked, and for answers that an earlier version kept without.

    Raises:
        InputError: the score has no tokens.
    """
    if score == "blind":
        question = build_blind_request(asking, plan.texts)
        (rows,) = score_missing(question)
        return question.answer_table.lists(rows[plan.pairs[:, 1]], LOGPROBS_COLUMN)
    if score != "lm":
        raise InputError(f"{score!r} has no token log-probabilities; lm and blind have.")
    question = build_pair_request(asking, score, plan)
    (rows,) = score_missing(question)
    return question.answer_table.lists(rows, LOGPROBS_COLUMN)


def score_examples(asking: ScoringContext, score: str, examples: Sequence[Example]) -> Answers:
    """Score every pair of every example; each distinct pair is scored once.

    Pairs that were skipped are NaN, and the answers list their examples and the reasons.

    Raises:
        InputError: the model cannot give the score, or gives something that is no number.
    """
    (answers,) = score_example_parts(asking, score, [examples])
    return answers


def score_example_parts(
    asking: ScoringContext, score: str, parts: Sequence[Sequence[Example]]
) -> list[Answers]:
    """Score the examples of several benchmarks by one plan, as `score_examples` does for one.

    One long piece of work fills its batches better than many short ones, and its time left can be
    estimated.
    """
    require_score(asking.model, score)
    if score == "prior" and isinstance(asking.prior, OtherImages) and len(parts) > 1:
        # Each benchmark's prior is of its own images.
        return [score_examples(asking, score, examples) for examples in parts]
    with gc_paused():
        frames = [build_frame(examples) for examples in parts]
        plan = plan_examples([example for examples in parts for example in examples])
    asking.skips.images.update(plan.lost)
    values = score_pairs(asking, score, plan)
    answers, start = [], 0
    for frame in frames:
        _, images, texts = frame.match.shape
        places = plan.places[start : start + len(frame), :images, :texts]
        answers.append(_fill_answers(asking, score, plan, frame, places, values))
        start += len(frame)
    return answers


def _fill_answers(
    asking: ScoringContext,
    score: str,
    plan: ScoringPlan,
    frame: Frame,
    places: IntArray,
    values: FloatArray,
) -> Answers:
    """Lay out the plan's values in the shape of some of its examples, with skips and notes."""
    scores = np.where(places >= 0, values[places], np.nan)
    skipped: dict[str, Skip] = {}
    holes = np.isnan(scores) & frame.present
    if holes.any():
        text_ids = compute_caption_ids(asking, plan.texts, plan.text_ids)
        for example, i, j in np.argwhere(holes).tolist():
            image, text = plan.pairs[places[example, i, j]].tolist()
            why = asking.skips.why(score, plan.image_ids[image], text_ids[text])
            skipped.setdefault(frame.ids[example], why or UNKNOWN_SKIP)
    captions = list(dict.fromkeys(text for texts in frame.texts or () for text in texts))
    return Answers(frame, scores, truncation_notes(asking, captions), skipped)


def score_priors_ahead(asking: ScoringContext, examples: Sequence[Example]) -> None:
    """Compute the priors of the captions of several benchmarks at once, so that later calls read.

    Priors under the benchmark's own images are left to each benchmark.
    """
    require_score(asking.model, "prior")
    if isinstance(asking.prior, NoiseImages):
        captions, _ = distinct_texts([text for example in examples for text in example.texts])
        compute_priors(asking, captions)
    elif not isinstance(asking.prior, OtherImages):
        plan = plan_examples(examples)
        compute_priors(asking, plan.texts, examples=plan)


def score_tokens(
    asking: ScoringContext, score: str, examples: Sequence[Example]
) -> tuple[ListColumn, IntArray]:
    """Compute token log-probabilities of every pair of every example, `lm` or `blind`.

    Returns:
        The lists of the distinct pairs, and k × m × n which of them a cell's is; −1 where there
        is no pair.

    Raises:
        InputError: the model cannot give the score, or it has no tokens.
    """
    require_score(asking.model, score)
    with gc_paused():
        plan = plan_examples(examples)
    asking.skips.images.update(plan.lost)
    return score_pair_tokens(asking, score, plan), plan.places


def score_priors(
    asking: ScoringContext, frame: Frame, score: str = "lm", examples: Sequence[Example] = ()
) -> FloatArray:
    """Compute the log prior of each example's captions, k × n, NaN where there is none.

    Args:
        asking: who is asked, and under which images.
        frame: the examples whose captions are asked.
        score: `lm` or `vqa`.
        examples: all examples, of which the frame may have some: a prior of real images must not
            be of theirs. Under noise they are not needed.

    Raises:
        InputError: the model gives no such likelihood, or the prior cannot be made.
    """
    require_score(asking.model, score)
    if score not in LIKELIHOOD_SCORES:
        raise InputError(
            f"{score!r} is no likelihood and has no prior; {' and '.join(LIKELIHOOD_SCORES)} have."
        )
    if frame.texts is None:
        raise InputError("the prior needs the captions themselves.")
    captions, at = distinct_texts([text for texts in frame.texts for text in texts])
    if isinstance(asking.prior, NoiseImages) or not examples:
        flat = compute_priors(asking, captions, score)[at]
    else:
        with gc_paused():
            plan = plan_examples(examples)
        asking.skips.images.update(plan.lost)
        found = compute_priors(asking, plan.texts, score, plan)
        place = {text: i for i, text in enumerate(plan.texts)}
        flat = found[[place[text] for text in captions]][at]
    sizes = np.array([len(texts) for texts in frame.texts])
    prior = np.full((len(frame), frame.match.shape[2]), np.nan)
    prior[np.arange(prior.shape[1]) < sizes[:, None]] = flat
    return prior
