"""Multiple-choice metrics of a chat model, with the options in every order.

One order alone measures the model's taste for a position as much as what it sees: EqBen's pilot
study asked in one. Here each order is reported, with their mean and how often they agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.types import Outcome, binary_outcome, real_outcome

UNPARSABLE = -1
"""The answer that could not be read as one of the options; it is wrong, and counted apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """Multiple-choice outcomes of a chat model over the orders of the options.

    Attributes:
        orders: the accuracy with the options in each order.
        mean: the mean over the orders, for each example; of several questions, over all
            combinations of their orders.
        every: right in every order.
        consistent: the same option chosen in every order, right or wrong; an answer that cannot be
            read is not consistent with anything.
        parsed: the share of orders in which the answer could be read.
    """

    orders: tuple[Outcome, ...]
    mean: Outcome
    every: Outcome
    consistent: Outcome
    parsed: Outcome


def multiple_choice(answers: ArrayLike, right: ArrayLike, options: int = 2) -> Choices:
    """Score answers given to the same question with its options in several orders.

    Args:
        answers: (k, orders) which option was chosen, by its identity and not by its position; −1
            where the answer could not be read.
        right: (k,) the right option, or one number for all.
        options: how many there are, for the chance level.

    Raises:
        InputError: a shape does not fit, or an answer is not an option.
    """
    chosen = np.asarray(answers, dtype=np.int64)
    if chosen.ndim != 2 or not chosen.shape[1]:
        raise InputError(f"answers must be examples × orders, not {chosen.shape}.")
    truth = np.asarray(right, dtype=np.int64)
    if truth.shape not in ((), (len(chosen),)):
        raise InputError(f"{len(chosen)} examples but {truth.shape} right options.")
    return joint_choice(chosen[:, None], np.broadcast_to(truth, (len(chosen),))[:, None], options)


def joint_choice(answers: ArrayLike, right: ArrayLike, options: int = 2) -> Choices:
    """Score examples of several questions each, all of which must be right at once.

    A text score of two images is one: each image is asked about with the captions in every order.
    An order is won when all answers in it are right. The mean is over every combination of orders,
    as if each question drew its own: to choose by position alone is then worth no more than chance.

    Args:
        answers: (k, questions, orders) which option was chosen, by its identity; −1 where the
            answer could not be read.
        right: (k, questions) the right options.
        options: how many there are, for the chance level.

    Raises:
        InputError: a shape does not fit, or an answer is not an option.
    """
    chosen = np.asarray(answers, dtype=np.int64)
    truth = np.asarray(right, dtype=np.int64)
    if chosen.ndim != 3 or not all(chosen.shape[1:]):
        raise InputError(f"answers must be examples × questions × orders, not {chosen.shape}.")
    if truth.shape != chosen.shape[:2]:
        raise InputError(f"{chosen.shape[:2]} questions but {truth.shape} right options.")
    if ((chosen < UNPARSABLE) | (chosen >= options)).any():
        raise InputError(f"answers must be options 0 … {options - 1}, or −1 if unreadable.")
    questions, orders = chosen.shape[1:]
    hits = chosen == truth[:, :, None]
    won = hits.all(axis=1)
    read = chosen != UNPARSABLE
    untied = np.zeros(len(chosen), dtype=np.bool_)
    agree = ((chosen == chosen[:, :, :1]) & read).all(axis=(1, 2))
    guess = float(options) ** -questions
    return Choices(
        orders=tuple(binary_outcome(won[:, j], untied, guess) for j in range(orders)),
        mean=real_outcome(hits.mean(axis=2).prod(axis=1), guess),
        every=binary_outcome(won.all(axis=1), untied, guess**orders),
        consistent=binary_outcome(agree, untied, guess ** (orders - 1)),
        parsed=real_outcome(read.mean(axis=(1, 2))),
    )
