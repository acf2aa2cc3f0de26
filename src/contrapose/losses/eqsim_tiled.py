"""EqSim computed tile by tile; its settings and equations are those of `eqsim.EqSim`.

Everything is written in d_ij = S_ij − S_ji and e_ij = S_ii − S_jj: v1 is d², and the two terms of
v2 are (e − d)² and (e + d)². Both d and e change sign with the order of the pair, so that each pair
is met twice with the same terms, and a row of S has all it needs for its own derivative.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from contrapose.losses.batch import Batch, TileRows, accumulator_dtype
from contrapose.losses.close_pairs import ClosePairFinder, ClosePairGradients
from contrapose.losses.gram_matrices import GramSums

if TYPE_CHECKING:
    from contrapose.losses.eqsim import EqSim

FAST_FLOAT64 = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}
"""CUDA devices with at least half as many float64 as float32 units, or tensor cores for them."""


class EqSimState:
    """State of EqSim on one batch."""

    def __init__(self, settings: EqSim, batch: Batch):
        self.settings, self.batch = settings, batch
        whole = settings.v1 == "all" or settings.v2 == "all"
        closed = settings.similarity == "cosine" and settings.hinge == "mean"
        self.grams: GramSums | None = None
        self.by_grams = whole and closed and settings.v1 != "easy" and _prefers_grams(batch)
        self.by_tiles = not self.by_grams and (whole or settings.v1 == "easy")
        self.close = settings.v2 == "close"
        self.sees = self.by_tiles or self.close
        self.closest = ClosePairFinder(batch, settings.close, drawn=settings.chosen == "drawn")
        self.right = batch.texts.new_empty(batch.own)
        self.softmax = settings.similarity == "softmax"
        self.logs = batch.texts.new_empty(batch.own if self.softmax else 0)
        self.scattered: ClosePairGradients | None = None
        self.only: tuple[Tensor, Tensor | None] | None = None

    def look(self, rows: TileRows, cosines: Tensor) -> None:
        """Process a tile in the forward pass."""
        here = slice(*rows)
        self.right[here] = self.batch.diagonal(rows, cosines)
        if self.softmax:
            self.logs[here] = (cosines * self.batch.scale).logsumexp(1)
        if self.close:
            self.closest.look(rows, cosines)

    def value(self) -> Tensor:
        """The loss of the whole batch."""
        batch, settings = self.batch, self.settings
        size = batch.size
        pairs = size * (size - 1)
        self.count_v1 = size * size if settings.v1 == "easy" else pairs
        self.count_v2 = pairs
        self.all_logs = batch.job.gather(self.logs)
        self.right = self._similar(self.right, self.logs)
        self.all_right = batch.job.gather(self.right)
        self.near = self.closest.found() if self.close else None
        # The sums, or hinged sums, of d², (e − d)² and (e + d)².
        sums = batch.texts.new_zeros(3, dtype=batch.wide)
        if self.near is not None:
            self.scattered = ClosePairGradients(batch, self.near)
            self.count_v2 = size * self.near.shape[1]
            self.apart = self._apart(self.near)
            sums[1], sums[2] = (self._total(it) for it in self._terms(*self.apart))
        if self.by_tiles:
            for rows in batch.tiles():
                d, e = self._tile(rows, self._rows(rows, batch.cosines(rows)))
                if settings.v1:
                    sums[0] += self._total(d, v1=True)
                if e is not None:
                    for place, term in enumerate(self._terms(d, e), start=1):
                        sums[place] += self._total(term)
        batch.job.sum(sums)
        if self.by_grams:
            self.grams = GramSums(
                batch.job.own(batch.images), batch.job.own(batch.texts), batch.job
            )
            skew = self.grams.skew()
            if settings.v1:
                sums[0] = skew
            if settings.v2 == "all":
                both, cross = skew + self.grams.spread(), 2 * self.grams.cross()
                sums[1], sums[2] = both - cross, both + cross
        return self._hinged(sums)

    def _hinged(self, sums: Tensor) -> Tensor:
        """The loss from its sums; stores which means exceed their margins."""
        margins = self._margin(v1=True), self.settings.margin
        if self.settings.hinge == "pair":
            margins = 0.0, 0.0
        shares, margin = _constant_tensor(self.count_v1, self.count_v2, *margins, sums.device)
        means = sums * shares - margin
        self.weights = (means > 0) * shares
        loss: Tensor = means.clamp(min=0).sum()
        return loss

    def slope(self, rows: TileRows, cosines: Tensor, weight: Tensor, into: Tensor | None) -> Tensor:
        """Gradient of a tile's cosines times `weight`, added to `into` if given."""
        plain = self.settings.similarity == "cosine"
        weights = (weight * self.weights).to(cosines.dtype)
        target = into if plain else None
        similar = cosines if plain else self._rows(rows, cosines)
        if self.by_tiles:
            d, e = self._tile(rows, similar)
            if e is None and target is not None:
                target.addcmul_(self._kept(d, v1=True), 4 * weights[0])
            else:
                found = self._whole(rows, d, e, weights)
                target = found if target is None else target.add_(found)
        if target is None:
            target = torch.zeros_like(cosines)
        if self.scattered is not None:
            if not self.scattered.ready:
                self.scattered.prepare(*self._by_d_and_e(*self.apart))
            self.scattered.add(rows, target, weight.to(target.dtype))
        if plain:
            return target
        found = self._through(cosines, similar, target)
        return found if into is None else into.add_(found)

    def aside(self, weight: Tensor) -> tuple[Tensor, Tensor] | None:
        """Gradients of the features from the Gram matrices."""
        if self.grams is None:
            return None
        v1, text, image = weight * self.weights
        if self.settings.v2 != "all":
            return self.grams.slopes(v1)
        both = text + image
        return self.grams.slopes(v1 + both, both, 2 * (image - text))

    def _similar(self, cosines: Tensor, logs: Tensor) -> Tensor:
        """Similarities from cosines; `logs` are log-sum-exps of the rows of S they stand in."""
        if self.settings.similarity == "cosine":
            return cosines
        logits = cosines * self.batch.scale
        return logits.sub_(logs).exp_() if self.softmax else logits.add_(self.batch.bias).sigmoid_()

    def _rows(self, rows: TileRows, cosines: Tensor) -> Tensor:
        return self._similar(cosines, self.logs[slice(*rows), None])

    def _tile(self, rows: TileRows, similar: Tensor) -> tuple[Tensor, Tensor | None]:
        """(t, B) d of the pairs counted in v1, and e where v2 covers all pairs."""
        if self.only is not None:
            return self.only
        d = self._similar(self.batch.mirror(rows), self.all_logs)
        torch.sub(similar, d, out=d)
        self.batch.diagonal(rows, d).zero_()
        if self.settings.v1 == "easy" and self.scattered is not None:
            self.scattered.clear(rows, d)
        every = self.settings.v2 == "all"
        found = d, (self.right[slice(*rows), None] - self.all_right if every else None)
        if self.batch.tile == self.batch.own:
            self.only = found
        return found

    def _apart(self, near: Tensor) -> tuple[Tensor, Tensor]:
        """(b, 2k) d and e of close pairs."""
        there, back = self.batch.at(near)
        if self.softmax:
            there, back = (
                self._similar(there, self.logs[:, None]),
                self._similar(back, self.all_logs[near]),
            )
        else:
            there, back = self._similar(there, self.logs), self._similar(back, self.logs)
        return there - back, self.right[:, None] - self.all_right[near]

    def _terms(self, d: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        return e - d, e + d

    def _margin(self, *, v1: bool) -> float:
        own = self.settings.margin_v1
        return own if v1 and own is not None else self.settings.margin

    def _total(self, term: Tensor, *, v1: bool = False) -> Tensor:
        if self.settings.hinge == "mean":
            return torch.dot(term.view(-1), term.view(-1))
        return (term.square() - self._margin(v1=v1)).clamp_(min=0).sum(dtype=self.batch.wide)

    def _kept(self, term: Tensor, *, v1: bool = False) -> Tensor:
        """The term, zeroed where its square is within the margin."""
        margin = self._margin(v1=v1)
        if self.settings.hinge == "mean" or not margin:
            return term
        return term * (term.square() > margin)

    def _whole(self, rows: TileRows, d: Tensor, e: Tensor | None, weights: Tensor) -> Tensor:
        """Gradient by a tile of S of the terms over all pairs."""
        if e is None:
            return self._kept(d, v1=True) * (4 * weights[0])
        text, image = (
            self._kept(term) * weight
            for term, weight in zip(self._terms(d, e), 4 * weights[1:], strict=True)
        )
        found: Tensor = image - text
        if self.settings.v1:
            found += self._kept(d, v1=True) * (4 * weights[0])
        self.batch.diagonal(rows, found).add_((image + text).sum(1))
        return found

    def _by_d_and_e(self, d: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        """(b, 2k) gradients by d and e of close pairs, each counted once."""
        weights = (2 * self.weights[1:]).to(d.dtype)
        text, image = (
            self._kept(term) * weight
            for term, weight in zip(self._terms(d, e), weights, strict=True)
        )
        return image - text, image + text

    def _through(self, cosines: Tensor, similar: Tensor, slope: Tensor) -> Tensor:
        """Backpropagate from similarities to cosines, through softmax or sigmoid."""
        if self.softmax:
            slope = similar * (slope - (slope * similar).sum(1, keepdim=True))
        else:
            slope = slope * similar * (1 - similar)
            self.batch.add("bias", slope.sum())
        self.batch.add("scale", torch.dot(slope.view(-1), cosines.reshape(-1)))
        return slope * self.batch.scale


@lru_cache(maxsize=64)
def _constant_tensor(
    v1: int, v2: int, margin_v1: float, margin: float, device: torch.device
) -> Tensor:
    """Inverse counts and margins as a cached device tensor."""
    rows = [[1 / v1, 1 / v2, 1 / v2], [margin_v1, margin, margin]]
    return torch.tensor(rows, dtype=accumulator_dtype(device), device=device)


def _prefers_grams(batch: Batch) -> bool:
    """Whether Gram matrices are faster than tiles: not on a GPU with slow float64."""
    device = batch.images.device
    if device.type == "cpu":
        return not batch.mirrored
    quick = device.type == "cuda" and torch.cuda.get_device_capability(device) in FAST_FLOAT64
    return quick and (not batch.mirrored or batch.size > 8 * batch.images.shape[1])
