"""The training objective: weighted losses by name (`hp+hn`), and their values on a batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.files import did_you_mean
from contrapose.losses import InfoNCE, Loss, LossBatch, Sigmoid, load_loss, loss_names, processes
from contrapose.losses.registry import implied_losses
from contrapose.losses.tiled import TiledLoss, pairwise
from contrapose.tune.feed import TrainingBatch, complete_games
from contrapose.tune.settings import HEADS
from contrapose.tune.students import Student

PLAIN = "plain"
"""The objective of the model's contrastive loss and the losses that it implies."""

CAPABILITIES: Mapping[str, str] = {
    "match": "it does not judge pairs",
    "tokens": "it writes no captions",
    "masked": "it cannot hide words",
}
"""What a loss may need of a model, and what is said of a model without it."""


@dataclass(frozen=True, slots=True)
class WeightedLoss:
    """A loss and its weight in an objective."""

    loss: Loss
    weight: float

    @property
    def name(self) -> str:
        """The loss's name, under which it is logged."""
        return self.loss.name

    @property
    def needs(self) -> frozenset[str]:
        """Inputs that it needs beyond images and captions."""
        return frozenset(self.loss.needs)

    @property
    def match_label(self) -> float | None:
        """The label of its captions for a model that judges pairs, if it has one."""
        return getattr(self.loss, "match_label", None)


@dataclass(frozen=True, slots=True)
class Objective:
    """Losses with their weights, beside the contrastive loss of the model.

    Attributes:
        name: as it was written.
        terms: the losses.
        contrast: weight of the contrastive loss.
        contrastive: the contrastive loss; None takes the one that the model was pretrained with.
    """

    name: str = PLAIN
    terms: tuple[WeightedLoss, ...] = ()
    contrast: float = 1.0
    contrastive: Loss | None = None

    @property
    def needs(self) -> frozenset[str]:
        """Everything that some loss needs."""
        contrastive = frozenset[str]() if self.contrastive is None else self.contrastive.needs
        return frozenset(contrastive).union(*(term.needs for term in self.terms))

    def weight(self, name: str) -> float:
        """Weight of a loss; zero where the objective does not have it."""
        return sum(term.weight for term in self.terms if term.name == name)

    def needing(self, need: str) -> list[WeightedLoss]:
        """The losses that need something."""
        return [term for term in self.terms if need in term.needs]

    def contrastive_loss(self, student: Student) -> Loss:
        """The contrastive loss of a student."""
        if self.contrastive is not None:
            return self.contrastive
        return Sigmoid() if student.contrast == "sigmoid" else InfoNCE()

    def for_model(self, *, matches: bool, writes: bool, hides: bool = False) -> Objective:
        """The objective with the losses that such a model implies.

        Raises:
            InputError: the model lacks what a loss needs.
        """
        capable = {"match": matches, "tokens": writes, "masked": hides}
        for term in self.terms:
            for need in sorted(term.needs & capable.keys()):
                if not capable[need]:
                    raise InputError(
                        f"the loss {term.name} does not suit the model: {CAPABILITIES[need]}."
                    )
        named = {term.name for term in self.terms}
        judged = [
            WeightedLoss(form, term.weight)
            for term in self.terms
            if matches and (form := _match_form(term.loss)) and form.name not in named
        ]
        implied = [
            WeightedLoss(loss, loss.weight)
            for loss in implied_losses()
            if loss.name not in named and all(capable.get(need, False) for need in loss.needs)
        ]
        return replace(self, terms=(*self.terms, *judged, *implied))

    def as_dict(self) -> dict[str, Any]:
        """JSON values for the log and for checkpoints: weights, and the losses' settings."""
        losses = [term.loss for term in self.terms]
        losses += [] if self.contrastive is None else [self.contrastive]
        settings = {
            loss.name: asdict(loss)  # type: ignore[call-overload]
            for loss in losses
            if is_dataclass(loss)
        }
        weights = {term.name: term.weight for term in self.terms}
        return {"name": self.name, "contrast": self.contrast, **weights, "settings": settings}


def _match_form(loss: Loss) -> Loss | None:
    """The form of a loss on match scores, which a model that judges pairs is trained with too."""
    form: Callable[[], Loss | None] | None = getattr(loss, "on_match_scores", None)
    return None if form is None else form()


def parse_objective(text: str) -> Objective:
    """Parse an objective: names of losses joined by `+`, each with a weight and options if given.

    `plain`, `hp+hn`, `eqsim=0.2+hn`, `eqsim=0.2:margin=0.04:close=4+hn`.

    Raises:
        InputError: a loss or an option is not known, stands twice, or has a value that is none.
    """
    objective = Objective(text.lower())
    names: set[str] = set()
    for part in text.lower().split("+"):
        first, *rest = part.split(":")
        name, _, weight = (it.strip() for it in first.partition("="))
        if name == HEADS:
            raise InputError("heads leave the model as it is: heads stands alone, without losses.")
        options = _parse_options(rest, name)
        if name == PLAIN and not options:
            continue
        known = loss_names()
        if name not in known:
            suggestion = did_you_mean(name, [*known, PLAIN, HEADS])
            raise InputError(f"there is no loss {name!r}: {suggestion}")
        loss = load_loss(name, options)
        if loss.name in names:
            raise InputError(f"the objective {text} has {loss.name} twice.")
        names.add(loss.name)
        number = _parse_weight(weight, name) if weight else loss.weight
        if getattr(loss, "contrastive", False):
            if objective.contrastive is not None:
                raise InputError(f"the objective {text} has two contrastive losses.")
            objective = replace(objective, contrastive=loss, contrast=number)
        else:
            objective = replace(objective, terms=(*objective.terms, WeightedLoss(loss, number)))
    return objective


def _parse_options(parts: Sequence[str], name: str) -> dict[str, str]:
    """Options of one loss, written `key=value`."""
    options: dict[str, str] = {}
    for part in parts:
        key, given, value = (it.strip() for it in part.partition("="))
        if not (key and given and value):
            raise InputError(f"an option of {name} is written as margin=0.04, not {part!r}.")
        if key in options:
            raise InputError(f"the loss {name} has the option {key} twice.")
        options[key] = value
    return options


def _parse_weight(text: str, name: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        raise InputError(f"the weight of {name} must be a number above zero, not {text!r}.")
    return weight


def loss_weights(objective: Objective) -> Mapping[str, float]:
    """Weight of each loss by the name it is logged under.

    A model that judges pairs also judges hard captions, logged as `itm_hn`: their weight is the
    product of both.
    """
    weights = {"contrast": objective.contrast}
    weights |= {term.name: term.weight for term in objective.terms}
    for judge in objective.needing("match"):
        for term in objective.terms:
            if term.match_label is not None:
                weights[f"{judge.name}_{term.name}"] = judge.weight * term.weight
    return weights


PAIR_NEEDS = frozenset({"match", "tokens", "teacher"})
"""Needs of losses on pairs, which see image states or a teacher and not only vectors."""


class BatchVectors(NamedTuple):
    """Encoder outputs of a batch; None where no loss needs them."""

    image: Tensor
    text: Tensor
    negative: Tensor | None = None
    positive: Tensor | None = None
    masked: Tensor | None = None


def loss_batch(student: Student, vectors: BatchVectors, batch: TrainingBatch) -> LossBatch:
    """The inputs of the losses on a batch's vectors."""
    scale, bias = student.scale()
    inputs = LossBatch(
        image=vectors.image,
        text=vectors.text,
        scale=scale.to(vectors.image.device),
        bias=bias,
        same=batch.captions,
        negative=vectors.negative,
        has_negative=batch.has_negative,
        same_negative=batch.negative_texts,
        positive=vectors.positive,
        has_positive=batch.has_positive,
        coarse=coarse_similarities(batch),
        seed=batch.seed,
    )
    if vectors.masked is None or vectors.negative is None or batch.masked is None:
        return inputs
    right, wrong = complete_games(vectors.masked, vectors.text, vectors.negative)
    return replace(inputs, masked=right, masked_negative=wrong, has_masked=batch.masked.has)


def coarse_similarities(batch: TrainingBatch) -> Tensor | None:
    """(b, B) cosines of the coarse vectors of these images with those of all captions."""
    if batch.coarse is None:
        return None
    image, text = batch.coarse
    return image @ processes().gather(text).T


def vector_losses(student: Student, objective: Objective, inputs: LossBatch) -> dict[str, Tensor]:
    """The contrastive loss, and all losses on vectors alone, of the whole batch.

    Tiled losses are computed together from the same cosines.
    """
    terms = [term for term in objective.terms if not term.needs & PAIR_NEEDS]
    terms.sort(key=lambda term: (len(term.needs), term.name))
    losses = {"contrast": objective.contrastive_loss(student)}
    losses |= {term.name: term.loss for term in terms}
    tiled: dict[str, TiledLoss] = {
        name: loss  # type: ignore[misc]
        for name, loss in losses.items()
        if hasattr(loss, "begin")
    }
    values: dict[str, Tensor] = {}
    if tiled:
        values = dict(zip(tiled, pairwise(inputs, list(tiled.values())), strict=True))
    return {name: values[name] if name in values else loss(inputs) for name, loss in losses.items()}


def weighted_sum(objective: Objective, losses: Mapping[str, Tensor]) -> Tensor:
    """Weighted sum of the losses."""
    weights = loss_weights(objective)
    return torch.stack([weights[name] * loss for name, loss in losses.items()]).sum()
