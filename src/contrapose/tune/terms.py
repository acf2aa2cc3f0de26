"""The losses of one batch: those on vectors, and those of models that judge or write captions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from contrapose.tune.feed import Batch
from contrapose.tune.losses import (
    Captioning,
    HardNegative,
    HardPositive,
    InfoNCE,
    Match,
    Sigmoid,
    gathered,
    mean_of,
    pairwise,
    processes,
)
from contrapose.tune.losses.pairs import Term
from contrapose.tune.objective import Objective
from contrapose.tune.students.student import Student


class Vectors(NamedTuple):
    """What the two encoders made of a batch; None where no loss asks."""

    image: Tensor
    text: Tensor
    negative: Tensor | None = None
    positive: Tensor | None = None


def vector_losses(
    student: Student, objective: Objective, vectors: Vectors, batch: Batch
) -> dict[str, Tensor]:
    """Contrast, EqSim, hard negatives and hard positives, over the whole batch."""
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
        losses["hp"] = HardPositive()(
            image, text, vectors.positive, has=batch.has_positive, scale=scale
        )
    return losses


def pair_losses(
    student: Student, objective: Objective, vectors: Vectors, states: Tensor, batch: Batch
) -> dict[str, Tensor]:
    """Matching, with hard captions judged too, and captioning."""
    losses: dict[str, Tensor] = {}
    if objective.itm:
        losses["itm"] = _match(student, vectors, states, batch)
        for name, tokens, has, right in (
            ("itm_hn", batch.negative, batch.has_negative, 0.0),
            ("itm_hp", batch.positive, batch.has_positive, 1.0),
        ):
            if tokens is not None and getattr(objective, name[-2:]):
                answers = student.match(states, tokens).float()
                aim = torch.full_like(answers, right)
                each = torch.nn.functional.binary_cross_entropy_with_logits(
                    answers, aim, reduction="none"
                )
                losses[name] = mean_of(each, has.float())
    if objective.lm:
        logits, tokens_ = student.write(states, batch.text)
        losses["lm"] = Captioning()(logits, tokens_)
    return losses


def weights(objective: Objective) -> Mapping[str, float]:
    """What each loss counts for."""
    itm = objective.itm or 0.0
    return {
        "contrast": objective.contrast,
        "eqsim": objective.eqsim,
        "hn": objective.hn,
        "hp": objective.hp,
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


def _match(student: Student, vectors: Vectors, states: Tensor, batch: Batch) -> Tensor:
    """The right pairs against hard ones of the whole batch."""
    job = processes()
    with torch.no_grad():
        scale, _ = student.scale()
        images, texts = job.gather(vectors.image), job.gather(vectors.text)
        same = job.gather(batch.captions)
        twice = batch.captions[:, None] == same
        twice &= ~torch.eye(len(same), device=same.device, dtype=torch.bool)[
            job.rank * len(batch) : (job.rank + 1) * len(batch)
        ]
        captions, others = (
            (scale.to(a.device) * a.float() @ b.float().T).masked_fill(twice, -1e4)
            for a, b in ((vectors.image, texts), (vectors.text, images))
        )
    every = gathered(states)
    tokens = {name: job.gather(values) for name, values in batch.text.items()}

    def judge(images: Tensor, texts: Tensor) -> Tensor:
        return student.match(every[images], {name: it[texts] for name, it in tokens.items()})

    return Match()(judge, captions, others)
