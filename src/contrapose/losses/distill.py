"""Distillation loss: a teacher's distribution over captions, learned by a dual encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from contrapose.losses.batch import LossBatch, at_least_float32
from contrapose.losses.gather import global_mean
from contrapose.losses.registry import register_loss


@register_loss
@dataclass(frozen=True, slots=True)
class Distill:
    """Distillation of a teacher's choice among captions into cosines.

    Computes: 1/B · Σ_i Σ_k q_ik log(q_ik / p_ik), q the teacher's probabilities of captions T_ik
        for image I_i and p_ik = softmax_k(S(I_i, T_ik)/τ) the student's.
    Inputs: `image`, `scale`; `choices` (b, k, d), `targets` (b, k) that sum to one in each row. A
        choice is absent where its vector is zero.
    Requirements: a teacher, such as a captioner; `tune` computes its targets.
    When to use: to teach a dual encoder a captioner's debiased likelihoods. A short trial showed
        no gain (docs/repair.md).

    Example:
        >>> loss = Distill()(LossBatch(image, text, choices=choices, targets=targets))
    """

    name: ClassVar[str] = "distill"
    weight: ClassVar[float] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"negative", "teacher"})

    def __call__(self, batch: LossBatch) -> Tensor:
        """The mean over the images of the whole batch."""
        choices, targets = batch.require("choices"), batch.require("targets")
        dtype = at_least_float32(batch.image.dtype)
        with torch.autocast(batch.image.device.type, enabled=False):
            choices, targets = choices.to(dtype), targets.to(dtype)
            absent = (choices == 0).all(dim=-1)
            cosines = torch.einsum("bd,bkd->bk", batch.image.to(dtype), choices)
            logits = (batch.scale * cosines).masked_fill(absent, -1e4)
            surprise = targets.clamp(min=1e-12).log() - logits.log_softmax(1)
            return global_mean((targets * surprise).sum(1))
