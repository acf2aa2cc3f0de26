"""Pairwise sigmoid loss of SigLIP: a binary decision for every image-caption pair."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.losses.batch import Batch, TileRows
from contrapose.losses.tiled import pairwise


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """Pairwise sigmoid loss of SigLIP.

    When to use: models that were trained with it; small batches, since no softmax wants many
    negatives.

    Inputs: unit vectors (b, d) of images and captions, a scale (SigLIP starts at 10) and a bias (at
    −10).

    Equation: −1/B · Σ_ij log σ(z_ij (scale · S_ij + bias)), z_ij = 1 for i = j and −1 otherwise
    (Zhai et al. 2023).

    Example:
        loss = Sigmoid()(image, text, scale=temperature(), bias=bias)
    """

    def __call__(
        self,
        image: Tensor,
        text: Tensor,
        *,
        scale: Tensor | float = 10.0,
        bias: Tensor | float = -10.0,
        tile: int | None = None,
        keep: int | None = None,
    ) -> Tensor:
        """The loss of the whole batch; the arguments are those of `pairwise`."""
        (loss,) = pairwise(image, text, [self], scale=scale, bias=bias, tile=tile, keep=keep)
        return loss

    def begin(self, batch: Batch) -> _SigmoidState:
        """Create the state for a batch."""
        return _SigmoidState(batch)


class _SigmoidState:
    sees = True

    def __init__(self, batch: Batch):
        self.batch = batch
        self.total = batch.texts.new_zeros((), dtype=batch.wide)

    def look(self, rows: TileRows, cosines: Tensor) -> None:
        # log σ(x) of right pairs and log σ(−x) of all others.
        logits = cosines * self.batch.scale + self.batch.bias
        self.batch.diagonal(rows, logits).neg_()
        self.total -= F.logsigmoid(-logits).sum(dtype=self.batch.wide)

    def value(self) -> Tensor:
        return self.batch.job.sum(self.total.clone()) / self.batch.size

    def slope(self, rows: TileRows, cosines: Tensor, weight: Tensor, into: Tensor | None) -> Tensor:
        batch = self.batch
        found = (cosines * batch.scale).add_(batch.bias).sigmoid_()
        batch.diagonal(rows, found).sub_(1)
        found *= weight / batch.size
        batch.add("scale", torch.dot(found.view(-1), cosines.reshape(-1)))
        batch.add("bias", found.sum())
        found *= batch.scale
        return found if into is None else into.add_(found)

    def aside(self, weight: Tensor) -> None:
        return None
