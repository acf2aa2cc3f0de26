"""The training objective: weighted losses by name, written as on the command line (`hp+hn`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.files import did_you_mean
from contrapose.losses import Dividend, HardNegative, InfoNCE, Sigmoid, pairwise
from contrapose.losses.eqsim import EqSim
from contrapose.losses.hard import HardPositive
from contrapose.losses.tiled import Term
from contrapose.tune.feed import TrainingBatch
from contrapose.tune.masked_batches import complete_games
from contrapose.tune.students import Student

LOSSES: Mapping[str, str] = {
    "plain": "the model's own losses alone",
    "hn": "each image tells its caption from a false change of it",
    "hp": "each image keeps its caption and a true rewording together",
    "hp-even": "a true rewording scores as the caption does, and nothing more",
    "eqsim": "similarities change as the meaning does (cosines)",
    "eqsim-paper": "the same as the paper writes it",
    "eqsim-released": "the same as the authors' code computes it",
    "dividend": "what changed is seen in objects together with what binds them, not in either",
    "itm": "match of image and caption, for models that judge pairs",
    "lm": "captions word by word, for models that write them",
    "distill": "a captioner's likelihoods, with its language prior taken out",
}
"""Every part of an objective, and what it asks."""
HEADS = "heads"
"""No part of an objective: the model stays as it is, and a map a side is learnt on its vectors."""

_REGULARIZERS = {
    "eqsim": EqSim(),
    "eqsim-paper": EqSim.paper(),
    "eqsim-released": EqSim.released(),
}
_POSITIVES: Mapping[str, HardPositive] = {"hp": HardPositive(), "hp-even": HardPositive("even")}
_DEFAULT_WEIGHTS = {
    "hn": 1.0, "hp": 1.0, "eqsim": 0.5, "dividend": 0.1, "itm": 0.5, "lm": 1.0, "distill": 1.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Objective:
    """Weights of the losses; zero disables one.

    Attributes:
        name: as it was written.
        contrast: of images and captions over the batch, in the form of the model's own training.
        hn: of hard negatives.
        hp: of hard positives.
        eqsim: of the equivariance regulariser.
        dividend: of the interaction's share of what tells a caption from its negative.
        itm: of matching; None where the model decides: some for one that judges pairs.
        lm: of captioning; None likewise.
        distill: of a teacher's likelihoods.
        regulariser: which form of EqSim.
        positive: which form of the loss on hard positives.
    """

    name: str = "plain"
    contrast: float = 1.0
    hn: float = 0.0
    hp: float = 0.0
    eqsim: float = 0.0
    dividend: float = 0.0
    itm: float | None = None
    lm: float | None = None
    distill: float = 0.0
    regulariser: EqSim = field(default_factory=EqSim)
    positive: HardPositive = field(default_factory=HardPositive)

    def for_model(self, *, matches: bool, writes: bool, hides: bool = False) -> Objective:
        """The objective with the model-dependent weights filled in.

        Raises:
            InputError: the model lacks what a loss is for.
        """
        for name, can in (("itm", matches), ("lm", writes)):
            if getattr(self, name) and not can:
                raise InputError(f"the model has nothing that --with {name} could teach.")
        if self.dividend and not hides:
            raise InputError("the model cannot hide words, which --with dividend needs.")
        return replace(
            self,
            itm=(_DEFAULT_WEIGHTS["itm"] if matches else 0.0) if self.itm is None else self.itm,
            lm=(_DEFAULT_WEIGHTS["lm"] if writes else 0.0) if self.lm is None else self.lm,
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON values for the log and for checkpoints."""
        return asdict(self)


def parse_objective(text: str) -> Objective:
    """Parse an objective: names joined by `+`, each with an optional weight.

    `plain`, `hp+hn`, `eqsim=0.2+hn`.

    Raises:
        InputError: a part is not known, stands twice, or has a weight that is none.
    """
    found: dict[str, Any] = {}
    for part in text.lower().split("+"):
        name, _, said = (each.strip() for each in part.partition("="))
        if name == HEADS:
            raise InputError("heads leave the model as it is: --with heads stands alone.")
        if name not in LOSSES:
            raise InputError(f"there is no loss {name!r}: {did_you_mean(name, [*LOSSES, HEADS])}")
        slot = name.partition("-")[0]
        if slot in found:
            raise InputError(f"--with {text} says {slot} twice.")
        if slot == "plain":
            continue
        found[slot] = _parse_weight(said, name) if said else _DEFAULT_WEIGHTS[slot]
        if name in _REGULARIZERS:
            found["regulariser"] = _REGULARIZERS[name]
        if name in _POSITIVES:
            found["positive"] = _POSITIVES[name]
    return Objective(text.lower(), **found)


def _parse_weight(text: str, name: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        raise InputError(f"the weight of {name} must be a number above zero, not {text!r}.")
    return weight


class BatchVectors(NamedTuple):
    """Encoder outputs of a batch; None where no loss needs them."""

    image: Tensor
    text: Tensor
    negative: Tensor | None = None
    positive: Tensor | None = None
    masked: Tensor | None = None


def vector_losses(
    student: Student, objective: Objective, vectors: BatchVectors, batch: TrainingBatch
) -> dict[str, Tensor]:
    """Contrastive, EqSim, hard-negative, hard-positive and dividend losses of the whole batch."""
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
        games = complete_games(vectors.masked, text, vectors.negative)
        losses["dividend"] = Dividend()(image[:, None], *games, has=batch.games.has)
    return losses


def loss_weights(objective: Objective) -> Mapping[str, float]:
    """Weight of each loss by name."""
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


def weighted_sum(objective: Objective, losses: Mapping[str, Tensor]) -> Tensor:
    """Weighted sum of the losses."""
    each = loss_weights(objective)
    return torch.stack([each[name] * loss for name, loss in losses.items()]).sum()
