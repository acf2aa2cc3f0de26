"""CyCLIP's consistency terms (Goel et al. 2022), the regularizer that EqSim is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses.batch import LossBatch
from contrapose.losses.gather import all_gather
from contrapose.losses.registry import register_loss


@register_loss
@dataclass(frozen=True, slots=True)
class CyClip:
    """Consistency of cosines across and within the two modalities.

    Computes: cross · 1/B · Σ_ij (S_ij − S_ji)² + within · 1/B · Σ_ij (⟨I_i, I_j⟩ − ⟨T_i, T_j⟩)²
        (Goel et al. 2022, CyCLIP, equations 2 and 3). The first term is v1 of EqSim over all pairs,
        divided by B and not by the number of pairs.
    Inputs: `image`, `text`.
    Requirements: nothing beyond the contrastive loss; no annotation.
    When to use: as a baseline beside EqSim; the paper has both weights at 0.25.

    Example:
        >>> loss = CyClip()(LossBatch(image, text))
    """

    name: ClassVar[str] = "cyclip"
    weight: ClassVar[float] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset()

    cross: float = 0.25
    """λ of the term across modalities."""
    within: float = 0.25
    """λ of the term within each modality."""

    def __post_init__(self) -> None:
        if self.cross < 0 or self.within < 0 or self.cross + self.within == 0:
            raise InputError("CyCLIP needs two weights that are 0 or more, and not both 0.")

    def __call__(self, batch: LossBatch) -> Tensor:
        """The loss of the whole batch."""
        image, text = (all_gather(rows) for rows in batch.pairs())
        cosines = image @ text.T
        across = (cosines - cosines.T).square().sum()
        inside = (image @ image.T - text @ text.T).square().sum()
        return torch.stack([self.cross * across, self.within * inside]).sum() / len(image)
