"""Derivatives of close pairs, laid into the tiles of the matrix that they belong to."""

from __future__ import annotations

import torch
from torch import Tensor

from contrapose.tune.losses.batch import Batch, Rows


class Scattered:
    """For each row i its close pairs: entries (i, j), the mirrored (j, i), and both right pairs.

    The mirrored entries lie in any row, so they are sorted by it, and each tile takes its stretch.
    """

    def __init__(self, batch: Batch, near: Tensor):
        self.batch = batch
        self.near = near
        self.ready = False
        every = batch.job.gather(near)
        anchors = torch.arange(batch.size, device=near.device)[:, None].expand_as(every)
        self.rows, self.columns = every.flatten(), anchors.flatten()
        self.order: Tensor | None = None
        self.stretches = {(0, batch.own): slice(0, len(self.rows))}
        if batch.tile < batch.own or batch.job.count > 1:
            self.rows, self.order = self.rows.sort(stable=True)
            self.columns = self.columns[self.order]
            tiles = list(batch.tiles())
            edges = torch.tensor(
                [batch.first + rows[0] for rows in tiles] + [batch.first + batch.own],
                device=near.device,
            )
            places = torch.searchsorted(self.rows, edges).tolist()
            self.stretches = {
                rows: slice(*places[tile : tile + 2]) for tile, rows in enumerate(tiles)
            }

    def prepare(self, by_d: Tensor, by_e: Tensor) -> None:
        """Takes the derivatives by d = S_ij − S_ji and e = S_ii − S_jj of each close pair."""
        job = self.batch.job
        self.by_d = by_d
        self.back = job.gather(by_d).flatten()
        right = job.gather(by_e)
        self.right = right.sum(1).scatter_add_(
            0, job.gather(self.near).flatten(), right.flatten().neg()
        )
        if self.order is not None:
            self.back = self.back[self.order]
        self.ready = True

    def add(self, rows: Rows, tile: Tensor, weight: Tensor) -> None:
        """Adds a tile's share."""
        flat = tile.view(-1)
        flat.scatter_add_(0, self._there(rows), (self.by_d[slice(*rows)] * weight).flatten())
        flat.scatter_add_(0, self._back(rows), self.back[self.stretches[rows]] * -weight)
        start = self.batch.first + rows[0]
        own = self.right[start : start + len(tile)]
        self.batch.diagonal(rows, tile).add_(own * weight)

    def clear(self, rows: Rows, tile: Tensor) -> None:
        """Makes the close pairs of a tile zero, in both orders."""
        flat = tile.view(-1)
        flat.index_fill_(0, self._there(rows), 0)
        flat.index_fill_(0, self._back(rows), 0)

    def _there(self, rows: Rows) -> Tensor:
        here = self.near[slice(*rows)]
        starts = torch.arange(len(here), device=here.device) * self.batch.size
        return (here + starts[:, None]).flatten()

    def _back(self, rows: Rows) -> Tensor:
        stretch = self.stretches[rows]
        local = self.rows[stretch] - (self.batch.first + rows[0])
        return local * self.batch.size + self.columns[stretch]
