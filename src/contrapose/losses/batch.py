"""The features of a batch, with its cosine matrix computed tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from contrapose.losses.gather import Processes

TileRows = tuple[int, int]
"""The first of a tile's rows, and the one after its last, among this process's rows."""


def accumulator_dtype(device: torch.device) -> torch.dtype:
    """The dtype of long sums: float64, or float32 on devices without float64."""
    return torch.float32 if device.type == "mps" else torch.float64


@dataclass(slots=True)
class Batch:
    """Gathered features of the whole batch, and the rows that belong to this process."""

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
        """Number of pairs in the whole batch."""
        return len(self.texts)

    @property
    def wide(self) -> torch.dtype:
        """The dtype of long sums."""
        return accumulator_dtype(self.images.device)

    @property
    def first(self) -> int:
        """Index of this process's first row."""
        return self.job.rank * self.own

    @property
    def own(self) -> int:
        """Number of rows of this process."""
        return self.size // self.job.count

    @property
    def mirrored(self) -> bool:
        """Whether columns of the cached cosine matrix can be read without recomputation."""
        return self.keeps and self.job.count == 1

    def tiles(self) -> Iterator[TileRows]:
        """Iterate over this process's rows in tiles."""
        for start in range(0, self.own, self.tile):
            yield start, min(start + self.tile, self.own)

    def cosines(self, rows: TileRows) -> Tensor:
        """(t, B) cosines of a tile's images with all captions; read-only."""
        if self._kept is None and self.keeps:
            self._kept, self._filled = self.texts.new_empty(self.own, self.size), 0
        if self._kept is None:
            return self._product(self.images, self.texts, rows)
        if rows[1] > self._filled:
            left = self.images[self.first + self._filled : self.first + rows[1]]
            torch.mm(left, self.texts.T, out=self._kept[self._filled : rows[1]])
            self._filled = rows[1]
        return self._kept[rows[0] : rows[1]]

    def mirror(self, rows: TileRows) -> Tensor:
        """(t, B) cosines of a tile's captions with all images: the transpose of `cosines`.

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

    def diagonal(self, rows: TileRows, tile: Tensor) -> Tensor:
        """A view of the matching pairs of a tile."""
        return tile.diagonal(self.first + rows[0])

    def add(self, name: str, value: Tensor) -> None:
        """Accumulate a gradient of `scale` or `bias`."""
        self.slopes[name] = self.slopes[name] + value if name in self.slopes else value

    def forget(self) -> None:
        """Drop the cached cosines; they are recomputed on demand."""
        self._kept = None

    def _product(self, left: Tensor, right: Tensor, rows: TileRows) -> Tensor:
        return left[self.first + rows[0] : self.first + rows[1]] @ right.T
