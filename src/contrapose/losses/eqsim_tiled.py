"""The tiled form of EqSim; its equations are those of `eqsim`.

In d_ij = s_ij − s_ji and e_ij = s_ii − s_jj, v1 is d² and the two terms of v2 are (e − d)² and
(e + d)². Both d and e change sign with the order of the pair. So a pair gives the same terms in
either order, and a row of similarities with the same column has all that its gradient needs: it
suffices to list each close pair in both orders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from contrapose.losses.tiled import CosineTiles, TileRows

if TYPE_CHECKING:
    from contrapose.losses.eqsim import EqSim


class TileTerms(NamedTuple):
    """Terms d and e of one tile: of all pairs, and of close ones at flat places in the tile."""

    d: Tensor
    e: Tensor | None
    close_d: Tensor
    close_e: Tensor
    places: Tensor


class TiledEqSim:
    """EqSim on one batch, tile by tile."""

    def __init__(self, settings: EqSim, tiles: CosineTiles):
        self.settings, self.tiles = settings, tiles
        self.close = min(settings.close, tiles.size - 1) if settings.v2 == "close" else 0
        self.dense = settings.v1 is not None or settings.v2 == "all"
        self.softmax = settings.similarity == "softmax"
        self.near: list[Tensor] = []
        self.right = tiles.texts.new_empty(tiles.rows)
        self.log_sums = tiles.texts.new_zeros(tiles.rows)
        self.single: TileTerms | None = None

    def look(self, rows: TileRows, cosines: Tensor) -> None:
        """Process a tile in the forward pass: matched pairs, softmax sums and close pairs."""
        tiles, here = self.tiles, slice(*rows)
        matched = tiles.diagonal(rows, cosines)
        self.right[here] = matched
        if self.softmax:
            self.log_sums[here] = (cosines * tiles.scale).logsumexp(1)
        if not self.close:
            return
        # The diagonal is removed for a moment only: a copy of the tile would cost more.
        kept = matched.clone()
        matched.fill_(-torch.inf)
        captions = self._closest(cosines)
        matched.copy_(kept)
        mirror = tiles.mirror(rows)
        tiles.diagonal(rows, mirror).fill_(-torch.inf)
        self.near.append(torch.cat([captions, self._closest(mirror)], dim=1))

    def value(self) -> Tensor:
        """The loss of the whole batch."""
        settings, tiles = self.settings, self.tiles
        self.right = self._similarity(self.right, self.log_sums)
        self.all_right = tiles.job.gather(self.right)
        self.all_log_sums = tiles.job.gather(self.log_sums)
        if self.close:
            self._list_close_pairs(torch.cat(self.near))
        sums = tiles.texts.new_zeros(3, dtype=tiles.wide)  # of d², (e − d)² and (e + d)²
        for rows in tiles:
            terms = self._terms(rows, tiles.cosines(rows))
            if settings.v1:
                sums[0] += self._total(terms.d, v1=True)
            if terms.e is not None:
                sums[1] += self._total(terms.e - terms.d)
                sums[2] += self._total(terms.e + terms.d)
            if self.close:  # each pair is listed in both orders
                sums[1] += self._total(terms.close_e - terms.close_d) / 2
                sums[2] += self._total(terms.close_e + terms.close_d) / 2
        tiles.job.sum(sums)
        pairs = tiles.size * (tiles.size - 1)
        v1 = tiles.size**2 if settings.v1 == "easy" else pairs
        v2 = tiles.size * 2 * self.close if self.close else pairs
        margins = [self._margin(v1=True), settings.margin, settings.margin]
        if settings.hinge == "pair":
            margins = [0.0, 0.0, 0.0]
        shares = [1 / v1, 1 / v2, 1 / v2]
        means = [sums[k] * shares[k] - margins[k] for k in range(3)]
        self.weights = torch.stack([(means[k] > 0).to(sums.dtype) * shares[k] for k in range(3)])
        loss: Tensor = torch.stack(means).clamp(min=0).sum()
        return loss

    def gradient(self, rows: TileRows, cosines: Tensor, weight: Tensor) -> Tensor:
        """Gradient by a tile's cosines times `weight`."""
        tiles = self.tiles
        weights = (2 * weight * self.weights).to(cosines.dtype)
        terms = self._terms(rows, cosines)
        if self.dense:
            by_d, by_e = self._slopes(terms.d, terms.e, 2 * weights)
            if by_e is not None:
                tiles.diagonal(rows, by_d).add_(by_e.sum(1))
        else:
            by_d = torch.zeros_like(cosines)
        if self.close:
            text = self._clipped(terms.close_e - terms.close_d) * weights[1]
            image = self._clipped(terms.close_e + terms.close_d) * weights[2]
            by_d.view(-1).scatter_add_(0, terms.places, image - text)
            matched = torch.zeros_like(by_d[:, 0])
            matched.scatter_add_(0, terms.places // tiles.size, image + text)
            tiles.diagonal(rows, by_d).add_(matched)
        if self.settings.similarity == "cosine":
            return by_d
        s = self._similarity(cosines, self.log_sums[slice(*rows), None])
        if self.softmax:
            by_logits = s * (by_d - (by_d * s).sum(1, keepdim=True))
        else:
            by_logits = by_d * s * (1 - s)
            tiles.add_gradient("bias", by_logits.sum())
        tiles.add_gradient("scale", torch.dot(by_logits.view(-1), cosines.reshape(-1)))
        return by_logits * tiles.scale

    def _closest(self, values: Tensor) -> Tensor:
        """(t, k) close columns of each row, whose matched pair is −inf."""
        if self.settings.chosen == "drawn":
            return sample_columns(values * self.tiles.scale, self.close)
        return top_columns(values, self.close)

    def _list_close_pairs(self, near: Tensor) -> None:
        """List the close pairs as (row, column), and the same pairs as (column, row) by row."""
        tiles = self.tiles
        every = tiles.job.gather(near)
        anchors = torch.arange(tiles.size, device=near.device)[:, None].expand_as(every).flatten()
        self.forward, self.rows, self.columns = near, every.flatten(), anchors
        self.stretches = {(0, tiles.rows): slice(None)}
        if tiles.tile < tiles.rows or tiles.job.count > 1:
            self.rows, order = self.rows.sort(stable=True)
            self.columns = self.columns[order]
            starts = [tiles.first + rows[0] for rows in tiles] + [tiles.first + tiles.rows]
            edges = torch.searchsorted(self.rows, torch.tensor(starts, device=near.device)).tolist()
            self.stretches = {rows: slice(*edges[i : i + 2]) for i, rows in enumerate(tiles)}

    def _terms(self, rows: TileRows, cosines: Tensor) -> TileTerms:
        """Terms d and e of a tile's pairs; d is zero for pairs that v1 leaves out."""
        if self.single is not None:
            return self.single
        tiles, settings, here = self.tiles, self.settings, slice(*rows)
        s = self._similarity(cosines, self.log_sums[here, None])
        d = self._similarity(tiles.mirror(rows), self.all_log_sums)
        torch.sub(s, d, out=d)
        tiles.diagonal(rows, d).zero_()
        e = self.right[here, None] - self.all_right if settings.v2 == "all" else None
        close_d = close_e = d[:0, 0]
        places = self.near[0].new_empty(0) if self.near else d[:0, 0].long()
        if self.close:
            there = self.forward[here]
            local = torch.arange(len(there), device=d.device)[:, None].expand_as(there).flatten()
            stretch = self.stretches[rows]
            local = torch.cat([local, self.rows[stretch] - (tiles.first + rows[0])])
            columns = torch.cat([there.flatten(), self.columns[stretch]])
            places = local * tiles.size + columns
            close_d = d.view(-1)[places]
            close_e = self.right[here][local] - self.all_right[columns]
            if settings.v1 == "easy":
                d.view(-1).index_fill_(0, places, 0)
        terms = TileTerms(d, e, close_d, close_e, places)
        if tiles.tile == tiles.rows:
            self.single = terms
        return terms

    def _similarity(self, cosines: Tensor, log_sums: Tensor) -> Tensor:
        """Similarities of cosines, given the log-sum-exps of the rows that they stand in."""
        if self.settings.similarity == "cosine":
            return cosines
        logits = cosines * self.tiles.scale
        if self.softmax:
            return logits.sub_(log_sums).exp_()
        return logits.add_(self.tiles.bias).sigmoid_()

    def _slopes(self, d: Tensor, e: Tensor | None, weights: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gradients by d and by e of the terms over all pairs."""
        by_d = None
        if self.settings.v1:
            by_d = self._clipped(d, v1=True) * weights[0]
        if e is None:
            assert by_d is not None  # noqa: S101 - one of both is over all pairs
            return by_d, None
        text, image = self._clipped(e - d) * weights[1], self._clipped(e + d) * weights[2]
        return image - text if by_d is None else by_d.add_(image).sub_(text), image + text

    def _margin(self, *, v1: bool) -> float:
        settings = self.settings
        return settings.margin if not v1 or settings.margin_v1 is None else settings.margin_v1

    def _total(self, term: Tensor, *, v1: bool = False) -> Tensor:
        """Sum of the term's squares, each hinged if the settings say so."""
        if self.settings.hinge == "mean":
            return torch.dot(term.view(-1), term.view(-1))
        return (term.square() - self._margin(v1=v1)).clamp_(min=0).sum(dtype=self.tiles.wide)

    def _clipped(self, term: Tensor, *, v1: bool = False) -> Tensor:
        """The term, zero where its square is within the margin."""
        margin = self._margin(v1=v1)
        if self.settings.hinge == "mean" or not margin:
            return term
        return term * (term.square() > margin)


def top_columns(values: Tensor, count: int) -> Tensor:
    """(n, k) columns of each row's largest values, ascending; of equal values, the lowest columns.

    Long rows are cut into blocks: the largest lie in as many blocks, those with the largest maxima.
    """
    rows, length = values.shape
    block = 1 << max(0, ((length // max(count, 1)).bit_length() - 1) // 2)
    if length < 1024 or length % block or length // block <= 2 * count:
        return _lowest_of_largest(values, count)
    blocks = values.view(rows, -1, block)
    chosen = _lowest_of_largest(blocks.amax(2), count)
    within = blocks.gather(1, chosen[:, :, None].expand(-1, -1, block)).flatten(1)
    places = _lowest_of_largest(within, count)
    return chosen.gather(1, places // block) * block + places % block


def _lowest_of_largest(values: Tensor, count: int) -> Tensor:
    """`top_columns` of short rows; a GPU sorts, since looking for ties would wait for it."""
    if not values.is_cuda:
        best, places = values.topk(count, dim=1)
        if count == 0 or not bool(((values >= best[:, -1:]).sum(1) > count).any()):
            return places.sort(dim=1).values
    places = values.sort(dim=1, descending=True, stable=True).indices[:, :count]
    return places.sort(dim=1).values


def sample_columns(logits: Tensor, count: int) -> Tensor:
    """(n, k) columns of each row drawn without replacement by its softmax (Gumbel top-k)."""
    return top_columns(logits - torch.empty_like(logits).exponential_().log_(), count)
