"""What is minimised: losses by name and weight, written as on the command line (`hp+hn`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from contrapose.errors import InputError
from contrapose.files.near import did_you_mean
from contrapose.tune.losses.eqsim import EqSim
from contrapose.tune.losses.hard import HardPositive

NAMES: Mapping[str, str] = {
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

_REGULARISERS = {
    "eqsim": EqSim(),
    "eqsim-paper": EqSim.paper(),
    "eqsim-released": EqSim.released(),
}
_POSITIVES: Mapping[str, HardPositive] = {"hp": HardPositive(), "hp-even": HardPositive("even")}
_WEIGHTS = {
    "hn": 1.0, "hp": 1.0, "eqsim": 0.5, "dividend": 0.1, "itm": 0.5, "lm": 1.0, "distill": 1.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Objective:
    """Weights of the losses; zero leaves one out.

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
        """The same with what the model decides filled in.

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
            itm=(_WEIGHTS["itm"] if matches else 0.0) if self.itm is None else self.itm,
            lm=(_WEIGHTS["lm"] if writes else 0.0) if self.lm is None else self.lm,
        )

    def as_dict(self) -> dict[str, Any]:
        """For the log and for checkpoints."""
        return asdict(self)


def parse_objective(text: str) -> Objective:
    """An objective as it is written: parts joined by `+`, each with its weight if it has one.

    `plain`, `hp+hn`, `eqsim=0.2+hn`.

    Raises:
        InputError: a part is not known, stands twice, or has a weight that is none.
    """
    found: dict[str, Any] = {}
    for part in text.lower().split("+"):
        name, _, said = (each.strip() for each in part.partition("="))
        if name == HEADS:
            raise InputError("heads leave the model as it is: --with heads stands alone.")
        if name not in NAMES:
            raise InputError(f"there is no loss {name!r}: {did_you_mean(name, [*NAMES, HEADS])}")
        slot = name.partition("-")[0]
        if slot in found:
            raise InputError(f"--with {text} says {slot} twice.")
        if slot == "plain":
            continue
        found[slot] = _weight(said, name) if said else _WEIGHTS[slot]
        if name in _REGULARISERS:
            found["regulariser"] = _REGULARISERS[name]
        if name in _POSITIVES:
            found["positive"] = _POSITIVES[name]
    return Objective(text.lower(), **found)


def _weight(text: str, name: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        raise InputError(f"the weight of {name} must be a number above zero, not {text!r}.")
    return weight
