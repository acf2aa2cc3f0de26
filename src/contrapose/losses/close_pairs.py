"""Close pairs of a batch: top-k or sampled neighbors of each row, and their gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from contrapose.losses.batch import Batch, TileRows


class ClosePairFinder:
    """Find the close pairs of a batch tile by tile, matching pairs excluded.

    Drawn ones are found the same way: the largest of logits plus Gumbel noise are draws without
    replacement by their softmax, so that no row of probabilities needs to be whole.
    """

    def __init__(self, batch: Batch, count: int, *, drawn: bool = False):
        self.batch = batch
        self.count = min(count, batch.size - 1)
        self.drawn = drawn
        self.captions: list[Tensor] = []
        self.images: tuple[Tensor, Tensor] | None = None

    def look(self, rows: TileRows, cosines: Tensor) -> None:
        """Process a tile."""
        if self.drawn:
            logits = cosines * self.batch.scale
            across, down = _add_gumbel_noise(logits), _add_gumbel_noise(logits)
            for tile in (across, down):
                self.batch.diagonal(rows, tile).fill_(-torch.inf)
            self.captions.append(blockwise_topk(across, self.count)[1])
            self._merge(rows, down)
            return
        # The diagonal is taken out for a moment only: a copy of the tile would cost more.
        right = self.batch.diagonal(rows, cosines)
        kept = right.clone()
        right.fill_(-torch.inf)
        self.captions.append(blockwise_topk(cosines, self.count)[1])
        if not self.batch.mirrored:
            self._merge(rows, cosines)
        right.copy_(kept)

    def found(self) -> Tensor:
        """(b, 2k) of own rows: captions nearest to image i, images nearest to caption i."""
        job = self.batch.job
        captions = self.captions[0] if len(self.captions) == 1 else torch.cat(self.captions)
        if self.images is None:
            images = [self._images(rows) for rows in self.batch.tiles()]
            return torch.cat([captions, torch.cat(images)], dim=1)
        values, places = self.images
        if job.count > 1:
            # (B, k) of each process, side by side for each caption.
            values, places = (
                job.gather(it[None]).transpose(0, 1).flatten(1) for it in (values, places)
            )
            values, best = values.topk(self.count, dim=1, sorted=False)
            places = places.gather(1, best)
        return torch.cat([captions, job.own(places)], dim=1)

    def _images(self, rows: TileRows) -> Tensor:
        """(t, k) images nearest to a tile's captions, from the cached columns."""
        mirror = self.batch.mirror(rows)
        self.batch.diagonal(rows, mirror).fill_(-torch.inf)
        return blockwise_topk(mirror, self.count)[1]

    def _merge(self, rows: TileRows, tile: Tensor) -> None:
        """Merge a tile into the running top-k of each column."""
        values, places = blockwise_topk(tile.T.contiguous(), min(self.count, len(tile)))
        places += self.batch.first + rows[0]
        if self.images is not None:
            values = torch.cat([self.images[0], values], dim=1)
            places = torch.cat([self.images[1], places], dim=1)
            values, best = values.topk(min(self.count, values.shape[1]), dim=1, sorted=False)
            places = places.gather(1, best)
        self.images = values, places


def blockwise_topk(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Values and indices of each row's largest entries, as `topk` gives them.

    Long rows are cut into blocks: the `count` largest lie in the `count` blocks with the largest
    maxima, so that only those need sorting.
    """
    rows, length = values.shape
    block = 1 << max(0, ((length // max(count, 1)).bit_length() - 1) // 2)
    if length < 1024 or length % block or length // block <= 2 * count:
        best, places = values.topk(count, dim=1, sorted=False)
        return best, places
    blocks = values.view(rows, -1, block)
    chosen = blocks.amax(2).topk(count, dim=1, sorted=False).indices
    within = blocks.gather(1, chosen[:, :, None].expand(-1, -1, block)).flatten(1)
    best, places = within.topk(count, dim=1, sorted=False)
    return best, chosen.gather(1, places // block) * block + places % block


def _add_gumbel_noise(logits: Tensor) -> Tensor:
    return logits - torch.empty_like(logits).exponential_().log_()


class ClosePairGradients:
    """Gradients of close pairs: entries (i, j), the mirrored (j, i) and both diagonals.

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
        """Store the gradients by d = S_ij − S_ji and e = S_ii − S_jj of each close pair."""
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

    def add(self, rows: TileRows, tile: Tensor, weight: Tensor) -> None:
        """Scatter-add a tile's gradients."""
        flat = tile.view(-1)
        flat.scatter_add_(0, self._there(rows), (self.by_d[slice(*rows)] * weight).flatten())
        flat.scatter_add_(0, self._back(rows), self.back[self.stretches[rows]] * -weight)
        start = self.batch.first + rows[0]
        own = self.right[start : start + len(tile)]
        self.batch.diagonal(rows, tile).add_(own * weight)

    def clear(self, rows: TileRows, tile: Tensor) -> None:
        """Zero the close pairs of a tile, in both orders."""
        flat = tile.view(-1)
        flat.index_fill_(0, self._there(rows), 0)
        flat.index_fill_(0, self._back(rows), 0)

    def _there(self, rows: TileRows) -> Tensor:
        here = self.near[slice(*rows)]
        starts = torch.arange(len(here), device=here.device) * self.batch.size
        return (here + starts[:, None]).flatten()

    def _back(self, rows: TileRows) -> Tensor:
        stretch = self.stretches[rows]
        local = self.rows[stretch] - (self.batch.first + rows[0])
        return local * self.batch.size + self.columns[stretch]
