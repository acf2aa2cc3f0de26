"""A batch whose pairs are looked at a tile of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from contrapose.tune.losses.gather import Processes

Rows = tuple[int, int]
"""The first of a tile's rows, and the one after its last, among this process's rows."""


def wide(device: torch.device) -> torch.dtype:
    """What long sums are kept in: float64, where the device knows it."""
    return torch.float32 if device.type == "mps" else torch.float64


@dataclass(slots=True)
class Batch:
    """What the terms see: the features of the whole batch and the rows that this process has."""

    images: Tensor
    texts: Tensor
    scale: Tensor
    bias: Tensor
    job: Processes
    tile: int
    keeps: bool
    same: Tensor | None = None
    slopes: dict[str, Tensor] = field(default_factory=dict)
    _kept: Tensor | None = None
    _filled: int = 0

    @property
    def size(self) -> int:
        """Pairs in the whole batch."""
        return len(self.texts)

    @property
    def wide(self) -> torch.dtype:
        """What long sums are kept in."""
        return wide(self.images.device)

    @property
    def first(self) -> int:
        """Where this process's rows begin."""
        return self.job.rank * self.own

    @property
    def own(self) -> int:
        """How many rows this process has."""
        return self.size // self.job.count

    @property
    def mirrored(self) -> bool:
        """Whether columns of cosines lie ready, so that the other half of a pair costs nothing."""
        return self.keeps and self.job.count == 1

    def tiles(self) -> Iterator[Rows]:
        """This process's rows, tile after tile."""
        for start in range(0, self.own, self.tile):
            yield start, min(start + self.tile, self.own)

    def cosines(self, rows: Rows) -> Tensor:
        """(t, B) of some rows' images with all captions; not to be written on."""
        if self._kept is None and self.keeps:
            self._kept, self._filled = self.texts.new_empty(self.own, self.size), 0
        if self._kept is None:
            return self._product(self.images, self.texts, rows)
        if rows[1] > self._filled:
            left = self.images[self.first + self._filled : self.first + rows[1]]
            torch.mm(left, self.texts.T, out=self._kept[self._filled : rows[1]])
            self._filled = rows[1]
        return self._kept[rows[0] : rows[1]]

    def mirror(self, rows: Rows) -> Tensor:
        """(t, B) of some rows' captions with all images: cosine (j, i) where `cosines` has (i, j).

        Always a new tensor. On a CPU a panel is copied before it is turned: torch turns whole
        matrices quickly, and slices of them slowly.
        """
        if not self.mirrored:
            return self._product(self.texts, self.images, rows)
        self.cosines((0, self.own))
        assert self._kept is not None  # noqa: S101 - the line above has made it
        panel = self._kept[:, rows[0] : rows[1]]
        return (panel.contiguous() if panel.device.type == "cpu" else panel).T.contiguous()

    def at(self, near: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines (i, near) and (near, i) of this process's rows: (b, n) each."""
        if self.mirrored:
            all_ = self.cosines((0, self.own))
            return all_.gather(1, near), all_.T.gather(1, near)
        there, back = (self.texts.new_empty(near.shape) for _ in range(2))
        step = max(1, self.tile * self.size // (near.shape[1] * self.texts.shape[1]))
        for start in range(0, self.own, step):
            here = slice(start, min(start + step, self.own))
            rows = slice(self.first + here.start, self.first + here.stop)
            there[here] = torch.einsum("tnd,td->tn", self.texts[near[here]], self.images[rows])
            back[here] = torch.einsum("tnd,td->tn", self.images[near[here]], self.texts[rows])
        return there, back

    def diagonal(self, rows: Rows, tile: Tensor) -> Tensor:
        """A view of the tile's right pairs."""
        return tile.diagonal(self.first + rows[0])

    def add(self, name: str, value: Tensor) -> None:
        """Adds to the derivative by `scale` or `bias`."""
        self.slopes[name] = self.slopes[name] + value if name in self.slopes else value

    def forget(self) -> None:
        """Lets go of the kept cosines; they are computed again if they are asked for."""
        self._kept = None

    def _product(self, left: Tensor, right: Tensor, rows: Rows) -> Tensor:
        return left[self.first + rows[0] : self.first + rows[1]] @ right.T
