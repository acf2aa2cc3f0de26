"""Symmetric InfoNCE, the contrastive loss of CLIP, and its learnable temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from contrapose.errors import InputError
from contrapose.losses.batch import LossBatch
from contrapose.losses.registry import register_loss
from contrapose.losses.tiled import CosineTiles, TileRows, pairwise

MAX_EXPONENT = 40.0
"""Logits within ± this need no maximum subtracted: exp(±40) is far from the ends of float32."""


class Temperature(nn.Module):
    """Inverse temperature 1/τ as a module; calling it gives the `scale` of losses.

    It is stored as its logarithm, as in CLIP, and fixed with `learnable=False`.

    Example:
        >>> temperature = Temperature(0.07)
        >>> loss = InfoNCE()(LossBatch(image, text, scale=temperature()))
    """

    def __init__(self, tau: float = 0.07, *, learnable: bool = True, most: float = 100.0):
        super().__init__()
        if not 0 < tau < math.inf:
            raise InputError(f"the temperature is {tau}; it must be above zero.")
        self.most = most
        self.log_scale = nn.Parameter(torch.tensor(-math.log(tau)), requires_grad=learnable)

    def forward(self) -> Tensor:
        """The scale, clamped at `most`."""
        return self.log_scale.exp().clamp(max=self.most)


@register_loss
@dataclass(frozen=True, slots=True)
class InfoNCE:
    """Symmetric InfoNCE, the contrastive loss of CLIP.

    Computes: −1/2B · Σ_i [log softmax_j(S_ij/τ)_i + log softmax_j(S_ji/τ)_i] (Radford et al. 2021,
        figure 3); S are the cosines of images and captions, B the pairs of all processes.
    Inputs: `image`, `text`, `scale`; `same` for rows that are no negatives of each other.
    Requirements: at least two pairs in the batch.
    When to use: fine-tuning of dual encoders and their heads, alone or beside other losses.

    Example:
        >>> loss = InfoNCE()(LossBatch(image, text, scale=14.3))
    """

    name: ClassVar[str] = "infonce"
    weight: ClassVar[float] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset()
    contrastive: ClassVar[bool] = True

    def __call__(self, batch: LossBatch) -> Tensor:
        """The loss of the whole batch."""
        return pairwise(batch, [self])[0]

    def begin(self, tiles: CosineTiles) -> TiledInfoNCE:
        """The tiled form of a batch."""
        return TiledInfoNCE(tiles)


class TiledInfoNCE:
    """InfoNCE on one batch, tile by tile.

    Where all logits are known to be small, as with heads at τ ≥ 1/40, one exponential a pair gives
    the sums of rows and of columns, and one more the gradient; otherwise each side has its own.
    """

    def __init__(self, tiles: CosineTiles):
        self.tiles = tiles
        self.right = tiles.texts.new_empty(tiles.rows)
        self.rows = tiles.texts.new_empty(tiles.rows)
        self.columns: Tensor | None = None
        self.small = False
        if not tiles.images.is_cuda:  # a GPU would be waited for
            norms = [float(it.square().sum(1).max().sqrt()) for it in (tiles.images, tiles.texts)]
            self.small = abs(float(tiles.scale.detach())) * math.prod(norms) <= MAX_EXPONENT * 1.001

    def look(self, rows: TileRows, cosines: Tensor) -> None:
        """Process a tile in the forward pass: log-sum-exps of rows and columns of logits."""
        here = slice(*rows)
        logits = self._logits(rows, cosines)
        self.right[here] = self.tiles.diagonal(rows, logits)
        if self.small:
            exps = logits.exp_()
            self.rows[here] = exps.sum(1).log_()
            columns = exps.sum(0).log_()
        else:
            self.rows[here] = logits.logsumexp(1)
            columns = logits.logsumexp(0)
        self.columns = columns if self.columns is None else self.columns.logaddexp(columns)

    def value(self) -> Tensor:
        """The loss of the whole batch."""
        tiles, job, columns = self.tiles, self.tiles.job, self.columns
        assert columns is not None  # noqa: S101 - all tiles were seen
        if job.count > 1:
            columns = job.gather(columns[None]).logsumexp(0)
        self.columns = columns
        total = (self.rows + job.local(columns) - 2 * self.right).sum()
        return job.sum(total) / (2 * tiles.size)

    def gradient(self, rows: TileRows, cosines: Tensor, weight: Tensor) -> Tensor:
        """Gradient by a tile's cosines times `weight`."""
        tiles, columns = self.tiles, self.columns
        assert columns is not None  # noqa: S101 - all tiles were seen
        logits, across = self._logits(rows, cosines), self.rows[slice(*rows), None]
        factor = weight * tiles.scale / (2 * tiles.size)
        if self.small:
            inverse = (-across).exp() * factor + (-columns).exp() * factor
            gradient = logits.exp_().mul_(inverse)
        else:
            gradient = (logits - across).exp_()
            gradient += logits.sub_(columns).exp_()
            gradient *= factor
        tiles.diagonal(rows, gradient).sub_(2 * factor)
        if tiles.scale.requires_grad:
            by_logits = torch.dot(gradient.view(-1), cosines.reshape(-1))
            tiles.add_gradient("scale", by_logits / tiles.scale)
        return gradient

    def _logits(self, rows: TileRows, cosines: Tensor) -> Tensor:
        tiles = self.tiles
        logits = cosines * tiles.scale
        if tiles.same is not None:
            here = tiles.same[tiles.first + rows[0] : tiles.first + rows[1]]
            hidden = here[:, None] == tiles.same
            tiles.diagonal(rows, hidden).fill_(False)
            logits.masked_fill_(hidden, -torch.inf)
        return logits
