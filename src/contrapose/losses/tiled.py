"""Tiled losses: several losses in one pass over the cosine matrix of a batch.

A tiled loss sees each tile of cosines once for its value, and once more in the backward pass, where
it gives its gradient by them. InfoNCE and EqSim together cost one product of images and captions
forwards, and beyond the features the memory of a few tiles. A matrix that fits in `keep` bytes is
cached for the backward pass; a larger one is computed again. On a GPU with Triton, `InfoNCE` and
`EqSim` on cosines run as kernels where the matrix is cached (`fused`).

In a job of several processes each holds the rows of its images and the captions of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contrapose.errors import InputError
from contrapose.losses.batch import LossBatch, accumulator_dtype
from contrapose.losses.fused import can_fuse, fused_losses
from contrapose.losses.gather import Processes, processes

TILE_ELEMENTS = {"cpu": 2**21, "cuda": 2**25}
"""Elements of a tile: about a CPU's last cache; large enough to fill a GPU."""

MAX_CACHED_BYTES = 2**30
"""Bytes of cosines that are cached on a CPU; a CUDA device caches up to 1/32 of its memory."""

TileRows = tuple[int, int]
"""The first of a tile's rows, and the one after its last, among this process's rows."""


@dataclass(slots=True)
class CosineTiles:
    """The cosine matrix of a batch, tile by tile; this process has the rows from `first` on."""

    images: Tensor
    texts: Tensor
    scale: Tensor
    bias: Tensor
    job: Processes
    tile: int
    caches: bool
    same: Tensor | None = None
    gradients: dict[str, Tensor] = field(default_factory=dict)
    _cache: Tensor | None = None
    _filled: int = 0

    @property
    def size(self) -> int:
        """Number of pairs in the whole batch."""
        return len(self.texts)

    @property
    def rows(self) -> int:
        """Number of rows of this process."""
        return self.size // self.job.count

    @property
    def first(self) -> int:
        """Index of this process's first row."""
        return self.job.rank * self.rows

    @property
    def wide(self) -> torch.dtype:
        """The dtype of long sums."""
        return accumulator_dtype(self.images.device)

    def __iter__(self) -> Iterator[TileRows]:
        for start in range(0, self.rows, self.tile):
            yield start, min(start + self.tile, self.rows)

    def cosines(self, rows: TileRows) -> Tensor:
        """(t, B) cosines of a tile's images with all captions; read-only."""
        if not self.caches:
            return self._product(self.images, self.texts, rows)
        if self._cache is None:
            self._cache, self._filled = self.texts.new_empty(self.rows, self.size), 0
        if rows[1] > self._filled:
            left = self.images[self.first + self._filled : self.first + rows[1]]
            torch.mm(left, self.texts.T, out=self._cache[self._filled : rows[1]])
            self._filled = rows[1]
        return self._cache[rows[0] : rows[1]]

    def mirror(self, rows: TileRows) -> Tensor:
        """(t, B) cosines of a tile's captions with all images: columns of the matrix; a new tensor.

        On a CPU a panel is copied before it is transposed, which torch does faster.
        """
        if not self.caches or self.job.count > 1:
            return self._product(self.texts, self.images, rows)
        panel = self.cosines((0, self.rows))[:, rows[0] : rows[1]]
        return (panel.contiguous() if panel.device.type == "cpu" else panel).T.contiguous()

    def diagonal(self, rows: TileRows, tile: Tensor) -> Tensor:
        """A view of the matched pairs of a tile."""
        return tile.diagonal(self.first + rows[0])

    def add_gradient(self, name: str, value: Tensor) -> None:
        """Accumulate a gradient of `scale` or `bias`."""
        self.gradients[name] = self.gradients[name] + value if name in self.gradients else value

    def free(self) -> None:
        """Drop the cached cosines; they are recomputed on demand."""
        self._cache = None

    def _product(self, left: Tensor, right: Tensor, rows: TileRows) -> Tensor:
        return left[self.first + rows[0] : self.first + rows[1]] @ right.T


class TileState(Protocol):
    """A tiled loss on one batch."""

    def look(self, rows: TileRows, cosines: Tensor) -> None:
        """Process a tile in the forward pass."""

    def value(self) -> Tensor:
        """The loss of the whole batch, after all tiles."""

    def gradient(self, rows: TileRows, cosines: Tensor, weight: Tensor) -> Tensor:
        """Gradient by a tile's cosines times `weight`; a new tensor."""


class TiledLoss(Protocol):
    """A loss on the pairs of a batch that can be computed tile by tile."""

    @property
    def name(self) -> str:
        """Its name."""

    def begin(self, tiles: CosineTiles) -> TileState:
        """The state of the loss on one batch."""


def pairwise(
    batch: LossBatch,
    losses: Sequence[TiledLoss],
    *,
    tile: int | None = None,
    keep: int | None = None,
) -> tuple[Tensor, ...]:
    """Compute several losses on the pairs of one batch in one pass over its cosines.

    Args:
        batch: the features.
        losses: such as `InfoNCE`, `Sigmoid` and `EqSim`; weigh and add the values.
        tile: rows a tile; without it as many as suit the device.
        keep: bytes of cosines to cache for the backward pass; without it 1 GiB, or a 32nd of the
            GPU's memory.

    Returns:
        One value a loss, of the whole batch over all processes.

    Raises:
        InputError: the features are not two matrices of one shape, or the batch is too small.
    """
    image, text = batch.pairs()
    if tile is not None and tile < 1:
        raise InputError(f"a tile of {tile} rows is not possible: give at least one.")
    if keep is None:
        keep = MAX_CACHED_BYTES
        if image.is_cuda:
            keep = _device_memory(image.device) // 32
    scale = as_scalar(batch.scale, image)
    if tile is None and can_fuse(image, text, losses, keep=keep):
        return fused_losses(
            image, text, losses, scale=scale, same=batch.same, tile=TILE_ELEMENTS["cuda"]
        )
    with torch.autocast(image.device.type, enabled=False):
        values: tuple[Tensor, ...] = _Pairwise.apply(  # type: ignore[no-untyped-call]
            image, text, scale, as_scalar(batch.bias, image), tuple(losses), batch.same, tile, keep
        )
    return values


def as_scalar(value: Tensor | float, like: Tensor) -> Tensor:
    """A number as a tensor beside the features; a float is filled in there, without a copy.

    A copy from the CPU would wait for the device, and cannot be captured in a CUDA graph.
    """
    if isinstance(value, Tensor):
        return value.to(device=like.device, dtype=like.dtype).reshape(())
    return torch.full((), value, device=like.device, dtype=like.dtype)


@lru_cache(maxsize=8)
def _device_memory(device: torch.device) -> int:
    """Bytes of memory of a CUDA device."""
    return int(torch.cuda.get_device_properties(device).total_memory)


class _Pairwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        image: Tensor,
        text: Tensor,
        scale: Tensor,
        bias: Tensor,
        losses: tuple[TiledLoss, ...],
        same: Tensor | None,
        tile: int | None,
        keep: int,
    ) -> tuple[Tensor, ...]:
        job = processes()
        job.require_equal_rows(image)
        size = len(image) * job.count
        elements = TILE_ELEMENTS.get(image.device.type, TILE_ELEMENTS["cuda"])
        tile = tile or max(64, elements // size)
        tiles = CosineTiles(
            images=job.gather(image),
            texts=job.gather(text),
            scale=scale,
            bias=bias,
            job=job,
            tile=min(tile, len(image)),
            caches=tile >= len(image) or len(image) * size * image.element_size() <= keep,
            same=None if same is None else job.gather(same),
        )
        states = [loss.begin(tiles) for loss in losses]
        for rows in tiles:
            cosines = tiles.cosines(rows)
            for state in states:
                state.look(rows, cosines)
        ctx.tiles, ctx.states = tiles, states
        ctx.set_materialize_grads(False)
        return tuple(state.value().to(image.dtype) for state in states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *weights: Tensor | None) -> tuple[Tensor | None, ...]:
        tiles: CosineTiles = ctx.tiles
        job = tiles.job
        weighted = [
            (state, job.sum(weight.clone()) if job.count > 1 else weight)
            for state, weight in zip(ctx.states, weights, strict=True)
            if weight is not None
        ]
        tiles.gradients.clear()
        with torch.autocast(tiles.images.device.type, enabled=False):
            images, texts = _feature_gradients(tiles, weighted)
        tiles.free()
        # The processes' parts of these are averaged with the other parameters, which sums them.
        numbers = [
            tiles.gradients[name].to(like.dtype) if name in tiles.gradients else None
            for name, like in (("scale", tiles.scale), ("bias", tiles.bias))
        ]
        return images, texts, *numbers, None, None, None, None


def _feature_gradients(
    tiles: CosineTiles, weighted: list[tuple[TileState, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Gradients of this process's image and caption features."""
    images = torch.zeros_like(tiles.job.local(tiles.images))
    texts = torch.zeros_like(tiles.texts)
    for rows in tiles if weighted else ():
        cosines = tiles.cosines(rows)
        state, weight = weighted[0]
        gradient = state.gradient(rows, cosines, weight)
        for state, weight in weighted[1:]:
            gradient += state.gradient(rows, cosines, weight)
        torch.mm(gradient, tiles.texts, out=images[rows[0] : rows[1]])
        texts.addmm_(gradient.T, tiles.images[tiles.first + rows[0] : tiles.first + rows[1]])
        del gradient
    return images, tiles.job.local(tiles.job.sum(texts))
