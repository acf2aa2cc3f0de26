"""Pairwise sigmoid loss of SigLIP: a binary decision for every image with every caption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.losses.batch import LossBatch
from contrapose.losses.registry import register_loss
from contrapose.losses.tiled import CosineTiles, TileRows, pairwise


@register_loss
@dataclass(frozen=True, slots=True)
class Sigmoid:
    """Pairwise sigmoid loss of SigLIP.

    Computes: −1/B · Σ_ij log σ(z_ij (scale · S_ij + bias)), z_ij = 1 for i = j and −1 otherwise
        (Zhai et al. 2023).
    Inputs: `image`, `text`, `scale` (SigLIP starts at 10), `bias` (at −10).
    Requirements: at least two pairs in the batch.
    When to use: models that were pretrained with it.

    Example:
        >>> loss = Sigmoid()(LossBatch(image, text, scale=10.0, bias=-10.0))
    """

    name: ClassVar[str] = "sigmoid"
    weight: ClassVar[float] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset()
    contrastive: ClassVar[bool] = True

    def __call__(self, batch: LossBatch) -> Tensor:
        """The loss of the whole batch."""
        return pairwise(batch, [self])[0]

    def begin(self, tiles: CosineTiles) -> TiledSigmoid:
        """The tiled form of a batch."""
        return TiledSigmoid(tiles)


class TiledSigmoid:
    """The sigmoid loss on one batch, tile by tile."""

    def __init__(self, tiles: CosineTiles):
        self.tiles = tiles
        self.total = tiles.texts.new_zeros((), dtype=tiles.wide)

    def look(self, rows: TileRows, cosines: Tensor) -> None:
        """Process a tile in the forward pass: log σ(x) of matched pairs, log σ(−x) of others."""
        logits = cosines * self.tiles.scale + self.tiles.bias
        self.tiles.diagonal(rows, logits).neg_()
        self.total -= F.logsigmoid(-logits).sum(dtype=self.tiles.wide)

    def value(self) -> Tensor:
        """The loss of the whole batch."""
        return self.tiles.job.sum(self.total.clone()) / self.tiles.size

    def gradient(self, rows: TileRows, cosines: Tensor, weight: Tensor) -> Tensor:
        """Gradient by a tile's cosines times `weight`."""
        tiles = self.tiles
        by_logits = (cosines * tiles.scale).add_(tiles.bias).sigmoid_()
        tiles.diagonal(rows, by_logits).sub_(1)
        by_logits *= weight / tiles.size
        tiles.add_gradient("scale", torch.dot(by_logits.view(-1), cosines.reshape(-1)))
        tiles.add_gradient("bias", by_logits.sum())
        return by_logits.mul_(tiles.scale)
