"""Tiled losses: several losses in one pass over the cosine matrix of a batch.

A loss on pairs (a `Term`) looks at each tile of cosines once on the way to its value, and once more
on the way back, where it gives its derivative by them. So InfoNCE and EqSim together cost one
product of images and captions forwards, and beyond the features the memory of a few tiles. A matrix
that fits in `keep` bytes is kept for the way back; a larger one is computed again. On a GPU with
Triton, `InfoNCE` and `EqSim` on cosines have kernels of their own where the matrix is kept
(`fused`).

In a job of several processes each has the rows of its own images and the captions of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contrapose.errors import InputError
from contrapose.losses.batch import Batch, TileRows
from contrapose.losses.fused import can_fuse, fused_losses
from contrapose.losses.gather import processes

TILE_ELEMENTS = {"cpu": 2**21, "cuda": 2**25}
"""Elements of a tile: about a CPU's last cache; large enough to fill a GPU."""

MAX_CACHED_BYTES = 2**30
"""Bytes of cosines that are kept on a CPU; a CUDA device keeps up to 1/32 of its memory."""


class TermState(Protocol):
    """State of one loss on one batch."""

    sees: bool
    """Whether it needs the tiles at all."""

    def look(self, rows: TileRows, cosines: Tensor) -> None:
        """Process a tile in the forward pass."""

    def value(self) -> Tensor:
        """The loss of the whole batch, after all tiles."""

    def slope(self, rows: TileRows, cosines: Tensor, weight: Tensor, into: Tensor | None) -> Tensor:
        """Gradient of a tile's cosines times `weight`, added to `into` if given."""

    def aside(self, weight: Tensor) -> tuple[Tensor, Tensor] | None:
        """Gradients of this process's features that bypass the cosines, if any."""


class Term(Protocol):
    """A loss on the pairs of a batch, computed tile by tile."""

    def begin(self, batch: Batch) -> TermState:
        """Create the state for a batch."""


def pairwise(
    image: Tensor,
    text: Tensor,
    terms: Sequence[Term],
    *,
    scale: Tensor | float = 1.0,
    bias: Tensor | float = 0.0,
    same: Tensor | None = None,
    tile: int | None = None,
    keep: int | None = None,
) -> tuple[Tensor, ...]:
    """Compute several losses on the pairs of one batch in one pass over its cosines.

    Args:
        image: (b, d) unit vectors of this process's images.
        text: (b, d) unit vectors of their captions.
        terms: the losses; weigh and add what comes back.
        scale: one over the temperature, for terms with logits.
        bias: added to the scaled cosines, for terms that take one.
        same: (b,) numbers; off the diagonal, pairs with the same number count as no negatives in
            `InfoNCE` (captions that stand twice, images with several captions).
        tile: rows a tile; without it as many as suit the device.
        keep: bytes of cosines to keep for the way back; without it 1 GiB, or a 32nd of the GPU.

    Returns:
        One value a term, of the whole batch.

    Raises:
        InputError: the features are not two matrices of one shape, or the batch is too small.
    """
    require_features(image, text)
    if same is not None and same.shape != image.shape[:1]:
        raise InputError(f"`same` has shape {tuple(same.shape)}; it needs one number a row.")
    if tile is not None and tile < 1:
        raise InputError(f"a tile of {tile} rows is not possible: give at least one.")
    exact = torch.promote_types(torch.promote_types(image.dtype, text.dtype), torch.float32)
    image, text = image.to(exact), text.to(exact)
    scale = torch.as_tensor(scale, dtype=exact, device=image.device).reshape(())
    if tile is None and can_fuse(image, text, terms, keep=cosine_budget(image.device, keep)):
        return fused_losses(image, text, terms, scale=scale, same=same, tile=TILE_ELEMENTS["cuda"])
    bias = torch.as_tensor(bias, dtype=exact, device=image.device).reshape(())
    with torch.autocast(image.device.type, enabled=False):
        found: tuple[Tensor, ...] = _Pairwise.apply(  # type: ignore[no-untyped-call]
            image, text, scale, bias, tuple(terms), same, tile, keep
        )
    return found


def cosine_budget(device: torch.device, asked: int | None) -> int:
    """Number of bytes of cosines that may be cached for the backward pass."""
    if asked is not None or device.type != "cuda":
        return MAX_CACHED_BYTES if asked is None else asked
    return torch.cuda.get_device_properties(device).total_memory // 32


def require_features(image: Tensor, text: Tensor) -> None:
    """Raise `InputError` unless features are two equal-shaped matrices of two or more pairs."""
    if image.ndim != 2 or image.shape != text.shape:
        raise InputError(
            f"images have features of shape {tuple(image.shape)} and captions {tuple(text.shape)}: "
            "both must be (batch, width)."
        )
    if not (image.is_floating_point() and text.is_floating_point()):
        raise InputError(f"features must be floating point, not {image.dtype} and {text.dtype}.")
    if len(image) * processes().count < 2:
        raise InputError("a batch of one pair has nothing to compare with: give at least two.")


class _Pairwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        image: Tensor,
        text: Tensor,
        scale: Tensor,
        bias: Tensor,
        terms: tuple[Term, ...],
        same: Tensor | None,
        tile: int | None,
        keep: int | None,
    ) -> tuple[Tensor, ...]:
        job = processes()
        job.require_equal_rows(image)
        size = len(image) * job.count
        device = image.device
        tile = tile or max(64, TILE_ELEMENTS.get(device.type, TILE_ELEMENTS["cuda"]) // size)
        keep = cosine_budget(device, keep)
        batch = Batch(
            images=job.gather(image),
            texts=job.gather(text),
            scale=scale,
            bias=bias,
            job=job,
            tile=min(tile, len(image)),
            keeps=tile >= len(image) or len(image) * size * image.element_size() <= keep,
            same=None if same is None else job.gather(same),
        )
        ctx.batch, ctx.works = batch, [term.begin(batch) for term in terms]
        seeing = [work for work in ctx.works if work.sees]
        for rows in batch.tiles() if seeing else ():
            cosines = batch.cosines(rows)
            for work in seeing:
                work.look(rows, cosines)
        ctx.set_materialize_grads(False)
        return tuple(work.value().to(image.dtype) for work in ctx.works)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *weights: Tensor | None) -> tuple[Tensor | None, ...]:
        batch: Batch = ctx.batch
        used = [
            (work, weight)
            for work, weight in zip(ctx.works, weights, strict=True)
            if weight is not None
        ]
        if batch.job.count > 1:
            used = [(work, batch.job.sum(weight.clone())) for work, weight in used]
        batch.slopes.clear()
        with torch.autocast(batch.images.device.type, enabled=False):
            images, texts = _backward_tiles(batch, used)
        batch.forget()
        # The processes' parts of these are averaged with the other parameters, which sums them.
        one = [
            batch.slopes[name].to(like.dtype) if name in batch.slopes else None
            for name, like in (("scale", batch.scale), ("bias", batch.bias))
        ]
        return images, texts, *one, None, None, None, None


def _backward_tiles(batch: Batch, used: list[tuple[TermState, Tensor]]) -> tuple[Tensor, Tensor]:
    """Gradients of this process's image and caption features."""
    own = batch.job.own
    images = torch.zeros_like(own(batch.images))
    texts = torch.zeros_like(batch.texts)
    seeing = [(work, weight) for work, weight in used if work.sees]
    for rows in batch.tiles() if seeing else ():
        cosines = batch.cosines(rows)
        into: Tensor | None = None
        for work, weight in seeing:
            into = work.slope(rows, cosines, weight, into)
        assert into is not None  # noqa: S101 - some term sees
        torch.mm(into, batch.texts, out=images[rows[0] : rows[1]])
        texts.addmm_(into.T, batch.images[batch.first + rows[0] : batch.first + rows[1]])
        del into
    mine = own(batch.job.sum(texts)) if seeing else own(texts)
    for work, weight in used:
        found = work.aside(weight)
        if found is not None:
            images += found[0]
            mine = mine + found[1]
    return images, mine
