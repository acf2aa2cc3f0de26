"""The close pairs of a batch: each image's nearest captions and each caption's nearest images."""

from __future__ import annotations

import torch
from torch import Tensor

from contrapose.tune.losses.batch import Batch, Rows


class Closest:
    """Finds them tile by tile, the right pairs left out.

    Drawn ones are found the same way: the largest of logits plus Gumbel noise are draws without
    replacement by their softmax, so that no row of probabilities needs to be whole.
    """

    def __init__(self, batch: Batch, count: int, *, drawn: bool = False):
        self.batch = batch
        self.count = min(count, batch.size - 1)
        self.drawn = drawn
        self.captions: list[Tensor] = []
        self.images: tuple[Tensor, Tensor] | None = None

    def look(self, rows: Rows, cosines: Tensor) -> None:
        """Sees a tile."""
        if self.drawn:
            logits = cosines * self.batch.scale
            across, down = _perturbed(logits), _perturbed(logits)
            for tile in (across, down):
                self.batch.diagonal(rows, tile).fill_(-torch.inf)
            self.captions.append(largest(across, self.count)[1])
            self._merge(rows, down)
            return
        # The diagonal is taken out for a moment only: a copy of the tile would cost more.
        right = self.batch.diagonal(rows, cosines)
        kept = right.clone()
        right.fill_(-torch.inf)
        self.captions.append(largest(cosines, self.count)[1])
        if not self.batch.mirrored:
            self._merge(rows, cosines)
        right.copy_(kept)

    def found(self) -> Tensor:
        """(b, 2k) of the own rows: captions nearest to image i, images nearest to caption i."""
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

    def _images(self, rows: Rows) -> Tensor:
        """(t, k) the images nearest to some rows' captions, where columns lie ready."""
        mirror = self.batch.mirror(rows)
        self.batch.diagonal(rows, mirror).fill_(-torch.inf)
        return largest(mirror, self.count)[1]

    def _merge(self, rows: Rows, tile: Tensor) -> None:
        """Keeps the largest of each column so far."""
        values, places = largest(tile.T.contiguous(), min(self.count, len(tile)))
        places += self.batch.first + rows[0]
        if self.images is not None:
            values = torch.cat([self.images[0], values], dim=1)
            places = torch.cat([self.images[1], places], dim=1)
            values, best = values.topk(min(self.count, values.shape[1]), dim=1, sorted=False)
            places = places.gather(1, best)
        self.images = values, places


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest of each row and their places, as `topk` gives them.

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


def _perturbed(logits: Tensor) -> Tensor:
    return logits - torch.empty_like(logits).exponential_().log_()
