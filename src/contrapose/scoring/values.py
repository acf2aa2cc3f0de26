"""Every score of a plan's pairs, by its name."""

from __future__ import annotations

from contrapose.errors import InputError
from contrapose.metrics import FloatArray
from contrapose.scoring.ask import asked, blind_question, blind_values, pair_question, vectors
from contrapose.scoring.asking import Asking
from contrapose.scoring.cosines import pair_cosines
from contrapose.scoring.lists import Lists
from contrapose.scoring.plan import Plan
from contrapose.scoring.prior_values import prior_values

LISTED = "logprobs"
"""The column of token log-probabilities in the store."""


def pair_values(asking: Asking, score: str, plan: Plan) -> FloatArray:
    """(p,) the score of every pair of the plan; NaN for those that cannot be asked."""
    if score == "itc":
        images, texts = vectors(asking, plan.images, plan.image_ids, plan.texts)
        return pair_cosines(images, texts, plan.pairs)
    if score == "prior":
        return prior_values(asking, plan.texts, examples=plan)[plan.pairs[:, 1]]
    if score == "blind":
        return blind_values(asking, plan.texts)[plan.pairs[:, 1]]
    question = pair_question(asking, score, plan)
    (rows,) = asked(question)
    return question.shelf.values(rows)


def token_values(asking: Asking, score: str, plan: Plan) -> Lists:
    """The token log-probabilities of every pair of the plan, `lm` or `blind`.

    Empty for those that cannot be asked, and for answers that an earlier version kept without.

    Raises:
        InputError: the score has no tokens.
    """
    if score == "blind":
        question = blind_question(asking, plan.texts)
        (rows,) = asked(question)
        return question.shelf.lists(rows[plan.pairs[:, 1]], LISTED)
    if score != "lm":
        raise InputError(f"{score!r} has no token log-probabilities; lm and blind have.")
    question = pair_question(asking, score, plan)
    (rows,) = asked(question)
    return question.shelf.lists(rows, LISTED)
