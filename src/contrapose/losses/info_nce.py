"""Symmetric InfoNCE, the contrastive loss of CLIP, and its learnable temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from contrapose.errors import InputError
from contrapose.losses.batch import Batch, TileRows
from contrapose.losses.tiled import pairwise


class Temperature(nn.Module):
    """Inverse temperature 1/τ, stored as its logarithm; calling it gives the scale of losses.

    When to use: learnable where the towers are trained, as in CLIP; fixed for adaptation heads,
    where τ decides what they are good for (SIMAT: 0.1 for deltas, 0.01 for retrieval).

    Example:
        temperature = Temperature(0.07)
        loss = InfoNCE()(image, text, scale=temperature())
    """

    def __init__(self, tau: float = 0.07, *, learnable: bool = True, most: float = 100.0):
        super().__init__()
        if not 0 < tau < math.inf:
            raise InputError(f"the temperature is {tau}; it must be above zero.")
        self.most = most
        self.log_scale = nn.Parameter(torch.tensor(-math.log(tau)), requires_grad=learnable)

    def forward(self) -> Tensor:
        """The scale, clamped at `most`, beyond which CLIP found training unstable."""
        return self.log_scale.exp().clamp(max=self.most)


@dataclass(frozen=True, slots=True)
class InfoNCE:
    """Symmetric InfoNCE, the contrastive loss of CLIP.

    When to use: fine-tuning of dual encoders and their heads; nearly always beside the others here.

    Inputs: unit vectors (b, d) of images and captions; row i of one belongs to row i of the other.

    Equation: −1/2B · Σ_i [log softmax_j(S_ij/τ)_i + log softmax_j(S_ji/τ)_i] (Radford et al. 2021,
    figure 3), S the cosines and B the pairs of all processes.

    Example:
        loss = InfoNCE()(image, text, scale=temperature())   # learnt
        loss = InfoNCE(tau=0.1)(image, text)                 # fixed
    """

    tau: float = 0.07
    """The temperature where the call gives no scale."""

    def __call__(
        self,
        image: Tensor,
        text: Tensor,
        *,
        scale: Tensor | float | None = None,
        same: Tensor | None = None,
        tile: int | None = None,
        keep: int | None = None,
    ) -> Tensor:
        """The loss of the whole batch; the arguments are those of `pairwise`."""
        scale = 1 / self.tau if scale is None else scale
        (loss,) = pairwise(image, text, [self], scale=scale, same=same, tile=tile, keep=keep)
        return loss

    def begin(self, batch: Batch) -> _InfoNCEState:
        """Create the state for a batch."""
        return _InfoNCEState(batch)


class _InfoNCEState:
    sees = True

    def __init__(self, batch: Batch):
        self.batch = batch
        self.right = batch.texts.new_empty(batch.own)
        self.rows = batch.texts.new_empty(batch.own)
        self.columns: Tensor | None = None

    def _logits(self, rows: TileRows, cosines: Tensor) -> Tensor:
        logits = cosines * self.batch.scale
        if self.batch.same is not None:
            own = self.batch.same[self.batch.first + rows[0] : self.batch.first + rows[1]]
            hidden = own[:, None] == self.batch.same
            self.batch.diagonal(rows, hidden).fill_(False)
            logits.masked_fill_(hidden, -torch.inf)
        return logits

    def look(self, rows: TileRows, cosines: Tensor) -> None:
        here = slice(*rows)
        logits = self._logits(rows, cosines)
        right = self.batch.diagonal(rows, logits)
        self.right[here] = right
        logs = logits.log_softmax(1)
        torch.sub(right, self.batch.diagonal(rows, logs), out=self.rows[here])
        if len(logits) == self.batch.size:
            logs = logits.T.log_softmax(1) if logits.is_cuda else logits.log_softmax(0)
            self.columns = right - logs.diagonal()
            return
        columns = logits.logsumexp(0)
        self.columns = columns if self.columns is None else self.columns.logaddexp(columns)

    def value(self) -> Tensor:
        batch, job = self.batch, self.batch.job
        assert self.columns is not None  # noqa: S101 - all tiles were seen
        if job.count > 1:
            self.columns = job.gather(self.columns[None]).logsumexp(0)
        both = self.rows + job.own(self.columns) - 2 * self.right
        return job.sum(both.sum()) / (2 * batch.size)

    def slope(self, rows: TileRows, cosines: Tensor, weight: Tensor, into: Tensor | None) -> Tensor:
        batch = self.batch
        assert self.columns is not None  # noqa: S101 - all tiles were seen
        logits = self._logits(rows, cosines)
        found = logits.softmax(1)
        found += logits.sub_(self.columns).exp_()
        batch.diagonal(rows, found).sub_(2)
        weight = weight / (2 * batch.size)
        batch.add("scale", weight * torch.dot(found.view(-1), cosines.reshape(-1)))
        found *= weight * batch.scale
        return found if into is None else into.add_(found)

    def aside(self, weight: Tensor) -> None:
        return None
