"""Multiple choice asked of a chat model, with the options in every order.

One order alone measures the model's taste for a position as much as what it sees: EqBen's pilot
study asked in one. Here each order is reported, with their mean and how often they agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.outcome import Outcome, decided, measured

UNPARSABLE = -1
"""The answer that could not be read as one of the options; it is wrong, and counted apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """What a chat model's answers amount to.

    Attributes:
        orders: the accuracy with the options in each order.
        mean: the mean over the orders, for each example.
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
    if ((chosen < UNPARSABLE) | (chosen >= options)).any():
        raise InputError(f"answers must be options 0 … {options - 1}, or −1 if unreadable.")
    hits = chosen == np.broadcast_to(truth, (len(chosen),))[:, None]
    read = chosen != UNPARSABLE
    orders = chosen.shape[1]
    untied = np.zeros(len(chosen), dtype=np.bool_)
    agree = (chosen == chosen[:, :1]).all(axis=1) & read.all(axis=1)
    return Choices(
        orders=tuple(decided(hits[:, j], untied, 1 / options) for j in range(orders)),
        mean=measured(hits.mean(axis=1), 1 / options),
        every=decided(hits.all(axis=1), untied, options**-orders),
        consistent=decided(agree, untied, options ** (1 - orders)),
        parsed=measured(read.mean(axis=1)),
    )
