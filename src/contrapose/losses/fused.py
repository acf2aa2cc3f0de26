"""InfoNCE and EqSim by fused Triton kernels, which `pairwise` uses where it can.

The equations are those of `info_nce` and `eqsim` on a cached matrix of cosines. Five kernels (see
`kernels`) replace the launches and passes over the matrix of separate operations, about a hundred
at small batches. They need Triton, which comes with PyTorch for CUDA.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contrapose.errors import first_line
from contrapose.losses.gather import processes

if TYPE_CHECKING:
    from contrapose.losses.eqsim import EqSim
    from contrapose.losses.tiled import TiledLoss

BLOCK_COLUMNS = 64
"""Entries of a block whose maximum is stored."""
MAX_CLOSE = 16
"""The most close pairs a side that the kernels select."""
MAX_BLOCKS = 2048
"""The most blocks in a row: 131,072 pairs."""


def can_fuse(
    image: Tensor,
    text: Tensor,
    losses: Sequence[TiledLoss],
    *,
    keep: int,
    triton: bool | None = None,
) -> bool:
    """Whether the kernels can compute these losses on these inputs.

    Args:
        image: (B, d) features of images.
        text: (B, d) features of captions.
        losses: `InfoNCE`, and perhaps `EqSim` on cosines with its margin on means.
        keep: bytes of cosines that may be cached.
        triton: whether kernels can run; without it, whether this is a GPU with Triton.
    """
    if not (image.is_cuda and has_triton() if triton is None else triton):
        return False
    if image.dtype != torch.float32 or text.dtype != torch.float32:
        return False
    if processes().count > 1 or torch.are_deterministic_algorithms_enabled():
        return False  # rows of others are not here; additions of close pairs come in any order
    size = len(image)
    if 4 * size * size > keep or -(-size // BLOCK_COLUMNS) > MAX_BLOCKS:
        return False
    return has_kernels(losses, size) and (triton is not None or can_launch(image.device))


def has_kernels(losses: Sequence[TiledLoss], size: int) -> bool:
    """Whether there are kernels for these losses."""
    if [loss.name for loss in losses] not in (["infonce"], ["infonce", "eqsim"]):
        return False
    if len(losses) == 1:
        return True
    eqsim: EqSim = losses[1]  # type: ignore[assignment]
    return (
        eqsim.similarity == "cosine"
        and eqsim.hinge == "mean"
        and eqsim.v1 in ("all", None)
        and eqsim.v2 in ("close", None)
        and eqsim.chosen == "top"
        and min(eqsim.close, size - 1) <= MAX_CLOSE
    )


@lru_cache(maxsize=1)
def has_triton() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


@lru_cache(maxsize=8)
def can_launch(device: torch.device) -> bool:
    """Whether a kernel runs on the device: Triton needs a C compiler and a supported GPU."""
    rows, nce, eq, weights = (torch.zeros(n, device=device) for n in (12, 1, 1, 3))
    try:
        from contrapose.losses import kernels

        with _launch_on(rows):
            kernels.losses[(1,)](
                rows, nce, eq, weights, 2, 0.5, 0.5, 0.0, 0.0, N=1024, V1=True, CLOSE=True
            )
    except Exception as error:  # whatever it is, tiles do the same
        warnings.warn(
            f"Triton's kernels do not run on {device} ({first_line(error)}); losses go by tiles, "
            "which is slower for small batches.",
            stacklevel=2,
        )
        return False
    return True


def fused_losses(
    image: Tensor,
    text: Tensor,
    losses: Sequence[TiledLoss],
    *,
    scale: Tensor,
    same: Tensor | None,
    tile: int,
) -> tuple[Tensor, ...]:
    """Compute the losses with fused kernels; `tile` limits the gradient entries held at once."""
    eqsim: EqSim | None = losses[1] if len(losses) > 1 else None  # type: ignore[assignment]
    values: tuple[Tensor, ...] = _Fused.apply(image, text, scale, same, eqsim, tile)  # type: ignore[no-untyped-call]
    return values[: len(losses)]


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        image: Tensor,
        text: Tensor,
        scale: Tensor,
        same: Tensor | None,
        eqsim: EqSim | None,
        tile: int,
    ) -> tuple[Tensor, Tensor]:
        from contrapose.losses import kernels

        size, device = len(image), image.device
        blocks = -(-size // BLOCK_COLUMNS)
        count = min(eqsim.close, size - 1) if eqsim is not None and eqsim.v2 else 0
        has_v1 = eqsim is not None and eqsim.v1 is not None
        ctx.tile, ctx.count, ctx.has_v1 = max(1, tile // size), count, has_v1
        with _launch_on(image):
            cosines = image @ text.T
            rows = torch.empty(6, size, device=device)
            weights = torch.empty(3, device=device)
            nce, eq = torch.empty((), device=device), torch.empty((), device=device)
            peaks = torch.empty((2, size, blocks) if count else 0, device=device)
            apart = torch.empty((2, size, 2 * count), device=device)
            near = torch.empty((size, 2 * count), dtype=torch.int32, device=device)
            height = 32 if size >= 4096 else 16
            kernels.sums[(-(-size // height),)](
                cosines, same, scale, rows, peaks, size, blocks,
                R=height, C=BLOCK_COLUMNS, SAME=same is not None, V1=has_v1, CLOSE=count > 0,
            )  # fmt: skip
            if count:
                kernels.close_pairs[(size,)](
                    cosines, peaks, rows, near, apart, size, blocks,
                    K=count, KP=_next_power_of_two(count), C=BLOCK_COLUMNS,
                    BLOCKS=_next_power_of_two(blocks),
                )  # fmt: skip
            margin = eqsim.margin if eqsim is not None else 0.0
            margin_v1 = eqsim.margin_v1 if eqsim is not None else None
            kernels.losses[(1,)](
                rows, nce, eq, weights, size, 1 / (size * (size - 1)), 1 / max(1, size * 2 * count),
                margin if margin_v1 is None else margin_v1, margin,
                N=1024, V1=has_v1, CLOSE=count > 0,
            )  # fmt: skip
        ctx.save_for_backward(image, text, scale, same, cosines, rows, weights, near, apart)
        return nce, eq

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_nce: Tensor, by_eq: Tensor) -> tuple[Tensor | None, ...]:
        from contrapose.losses import kernels

        image, text, scale, same, cosines, rows, weights, near, apart = ctx.saved_tensors
        size, pairs = len(image), near.numel()
        images = torch.empty_like(image)
        texts: Tensor | None = None
        by_scale: Tensor | None = None
        with _launch_on(image):
            for first in range(0, size, ctx.tile):
                last = min(first + ctx.tile, size)
                grid = (-(-(last - first) // 32), -(-size // BLOCK_COLUMNS))
                out = torch.empty(last - first, size, device=image.device)
                parts = torch.empty(grid, device=image.device)
                kernels.gradient[grid](
                    cosines, same, scale, rows, weights, by_nce, by_eq, out, parts,
                    first, last, size,
                    R=32, C=BLOCK_COLUMNS, SAME=same is not None, V1=ctx.has_v1,
                )  # fmt: skip
                if pairs:
                    kernels.close_gradients[(-(-pairs // 256),)](
                        near, apart, weights, by_eq, out, first, last, size, pairs,
                        K2=2 * ctx.count, N=256,
                    )  # fmt: skip
                torch.mm(out, text, out=images[first:last])
                if texts is None:
                    texts = out.T @ image[first:last]
                else:
                    texts.addmm_(out.T, image[first:last])
                if ctx.needs_input_grad[2]:
                    part = parts.sum()
                    by_scale = part if by_scale is None else by_scale + part
        return images, texts, by_scale, None, None, None


class _launch_on:  # noqa: N801 - a context, written as a function
    """Context that launches kernels on the tensor's device, with autocast off."""

    def __init__(self, like: Tensor):
        kind = like.device.type
        cast = torch.is_autocast_enabled(kind)
        there = like.is_cuda and like.get_device() != torch.cuda.current_device()
        self.casting: Any = torch.autocast(kind, enabled=False) if cast else nullcontext()
        self.placing: Any = torch.cuda.device(like.device) if there else nullcontext()

    def __enter__(self) -> None:
        self.casting.__enter__()
        self.placing.__enter__()

    def __exit__(self, *error: object) -> None:
        self.placing.__exit__(*error)
        self.casting.__exit__(*error)


def _next_power_of_two(number: int) -> int:
    """The smallest power of two that is not below a number."""
    return 1 << max(0, (number - 1).bit_length())
