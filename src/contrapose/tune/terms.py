"""The losses of one batch on vectors, and what each loss counts for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from contrapose.tune.feed import Batch
from contrapose.tune.games import both_games
from contrapose.tune.losses import Dividend, HardNegative, InfoNCE, Sigmoid, pairwise
from contrapose.tune.losses.pairs import Term
from contrapose.tune.objective import Objective
from contrapose.tune.students.student import Student


class Vectors(NamedTuple):
    """What the two encoders made of a batch; None where no loss asks."""

    image: Tensor
    text: Tensor
    negative: Tensor | None = None
    positive: Tensor | None = None
    masked: Tensor | None = None


def vector_losses(
    student: Student, objective: Objective, vectors: Vectors, batch: Batch
) -> dict[str, Tensor]:
    """Contrast, EqSim, hard negatives, hard positives and dividends, over the whole batch."""
    scale, bias = student.scale()
    image, text = vectors.image, vectors.text
    scale = scale.to(image.device)
    terms: list[Term] = [Sigmoid() if student.contrast == "sigmoid" else InfoNCE()]
    if objective.eqsim:
        terms.append(objective.regulariser)
    found = pairwise(image, text, terms, scale=scale, bias=bias, same=batch.captions)
    losses = {"contrast": found[0]}
    if objective.eqsim:
        losses["eqsim"] = found[1]
    if vectors.negative is not None and objective.hn:
        losses["hn"] = HardNegative()(
            image, text, vectors.negative, has=batch.has_negative, scale=scale
        )
    if vectors.positive is not None and objective.hp:
        losses["hp"] = objective.positive(
            image, text, vectors.positive, has=batch.has_positive, scale=scale
        )
    if vectors.masked is not None and vectors.negative is not None and batch.games is not None:
        games = both_games(vectors.masked, text, vectors.negative)
        losses["dividend"] = Dividend()(image[:, None], *games, has=batch.games.has)
    return losses


def weights(objective: Objective) -> Mapping[str, float]:
    """What each loss counts for."""
    itm = objective.itm or 0.0
    return {
        "contrast": objective.contrast,
        "eqsim": objective.eqsim,
        "hn": objective.hn,
        "hp": objective.hp,
        "dividend": objective.dividend,
        "itm": itm,
        "itm_hn": itm * objective.hn,
        "itm_hp": itm * objective.hp,
        "lm": objective.lm or 0.0,
        "distill": objective.distill,
    }


def total(objective: Objective, losses: Mapping[str, Tensor]) -> Tensor:
    """Their weighted sum."""
    each = weights(objective)
    return torch.stack([each[name] * loss for name, loss in losses.items()]).sum()
