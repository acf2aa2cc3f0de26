"""A model's answers to examples, in the shape of the examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrapose.data import Example
from contrapose.errors import InputError
from contrapose.files.paused import collection_paused
from contrapose.metrics import FloatArray, IntArray
from contrapose.scoring.answers import Answers, Frame, frame_of
from contrapose.scoring.asking import Asking
from contrapose.scoring.lengths import caption_ids, cut_note
from contrapose.scoring.lists import Lists
from contrapose.scoring.plan import distinct_texts, plan_examples
from contrapose.scoring.prior_values import prior_values
from contrapose.scoring.priors import Noise, OtherImages
from contrapose.scoring.scores import LIKELIHOODS, require_score
from contrapose.scoring.skips import UNKNOWN, Skip
from contrapose.scoring.values import pair_values, token_values


def ask_examples(asking: Asking, score: str, examples: Sequence[Example]) -> Answers:
    """The score of every pair of every example; each distinct pair is asked once.

    What cannot be asked is NaN, and the answers say of which examples and why.

    Raises:
        InputError: the model cannot give the score, or gives something that is no number.
    """
    require_score(asking.model, score)
    with collection_paused():
        frame, plan = frame_of(examples), plan_examples(examples)
    asking.skips.images.update(plan.lost)
    values = pair_values(asking, score, plan)
    scores = np.where(plan.places >= 0, values[plan.places], np.nan)
    skipped: dict[str, Skip] = {}
    holes = np.isnan(scores) & frame.present
    if holes.any():
        text_ids = caption_ids(asking, plan.texts, plan.text_ids)
        for example, i, j in np.argwhere(holes).tolist():
            image, text = plan.pairs[plan.places[example, i, j]].tolist()
            why = asking.skips.why(score, plan.image_ids[image], text_ids[text])
            skipped.setdefault(frame.ids[example], why or UNKNOWN)
    return Answers(frame, scores, cut_note(asking, plan.texts), skipped)


def ask_ahead(asking: Asking, score: str, examples: Sequence[Example]) -> None:
    """Ask about examples of several benchmarks in one go, so that reading them then asks nothing.

    One long piece of work fills its batches better than many short ones, and its time left can be
    told.
    """
    require_score(asking.model, score)
    if score == "prior" and isinstance(asking.prior, OtherImages):
        return  # each benchmark's prior is of its own images
    if examples:
        with collection_paused():
            plan = plan_examples(examples)
        asking.skips.images.update(plan.lost)
        pair_values(asking, score, plan)


def ask_tokens(asking: Asking, score: str, examples: Sequence[Example]) -> tuple[Lists, IntArray]:
    """Token log-probabilities of every pair of every example, `lm` or `blind`.

    Returns:
        The lists of the distinct pairs, and k × m × n which of them a cell's is; −1 where there
        is no pair.

    Raises:
        InputError: the model cannot give the score, or it has no tokens.
    """
    require_score(asking.model, score)
    with collection_paused():
        plan = plan_examples(examples)
    asking.skips.images.update(plan.lost)
    return token_values(asking, score, plan), plan.places


def ask_prior(
    asking: Asking, frame: Frame, score: str = "lm", examples: Sequence[Example] = ()
) -> FloatArray:
    """The log prior of each example's captions, k × n, NaN where there is none.

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
    if score not in LIKELIHOODS:
        raise InputError(
            f"{score!r} is no likelihood and has no prior; {' and '.join(LIKELIHOODS)} have."
        )
    if frame.texts is None:
        raise InputError("the prior needs the captions themselves.")
    captions, at = distinct_texts([text for texts in frame.texts for text in texts])
    if isinstance(asking.prior, Noise) or not examples:
        flat = prior_values(asking, captions, score)[at]
    else:
        with collection_paused():
            plan = plan_examples(examples)
        asking.skips.images.update(plan.lost)
        found = prior_values(asking, plan.texts, score, plan)
        place = {text: i for i, text in enumerate(plan.texts)}
        flat = found[[place[text] for text in captions]][at]
    sizes = np.array([len(texts) for texts in frame.texts])
    prior = np.full((len(frame), frame.match.shape[2]), np.nan)
    prior[np.arange(prior.shape[1]) < sizes[:, None]] = flat
    return prior
