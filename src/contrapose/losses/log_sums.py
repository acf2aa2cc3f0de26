"""Log-sum-exp of each row of logits, tile by tile, with gradients.

Losses whose columns are not the captions of the batch (hard negatives appended to them, positives)
use it: the matrix of logits is never in memory, and is computed again for the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from contrapose.losses.gather import processes
from contrapose.losses.tiled import TILE_ELEMENTS, as_scalar


def row_log_sums(
    rows: Tensor,
    columns: Tensor,
    scale: Tensor | float,
    *,
    rows_id: Tensor | None = None,
    columns_id: Tensor | None = None,
    present: Tensor | None = None,
    tile: int | None = None,
) -> Tensor:
    """(b,) log Σ_j exp(scale · rows_i · columns_j) over the columns that row i may see.

    Args:
        rows: (b, d) features of this process.
        columns: (m, d) features of all processes, gathered with gradients; the first of them match
            the rows of all processes, in their order.
        scale: of the logits.
        rows_id: (b,) numbers of the rows.
        columns_id: (m,) numbers of the columns: those of the row's number are hidden from it,
            unless they match it.
        present: (m,) the columns that exist; all without it.
        tile: rows at once; without it as many as suit the device.
    """
    height = tile or max(1, TILE_ELEMENTS.get(rows.device.type, 1 << 25) // max(len(columns), 1))
    with torch.autocast(rows.device.type, enabled=False):
        sums: Tensor = _RowLogSums.apply(  # type: ignore[no-untyped-call]
            rows, columns, as_scalar(scale, rows), rows_id, columns_id, present, height
        )
    return sums


class _RowLogSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        columns: Tensor,
        scale: Tensor,
        rows_id: Tensor | None,
        columns_id: Tensor | None,
        present: Tensor | None,
        tile: int,
    ) -> Tensor:
        ctx.tile, ctx.first = tile, processes().rank * len(rows)
        sums = rows.new_empty(len(rows))
        for start in range(0, len(rows), tile):
            part = slice(start, start + tile)
            logits = scale * (rows[part] @ columns.T)
            _hide_columns(logits, _part(rows_id, part), columns_id, present, ctx.first + start)
            sums[part] = logits.logsumexp(1)
        ctx.save_for_backward(rows, columns, scale, rows_id, columns_id, present, sums)
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor | None, ...]:
        rows, columns, scale, rows_id, columns_id, present, sums = ctx.saved_tensors
        by_rows, by_columns = torch.empty_like(rows), torch.zeros_like(columns)
        by_scale = torch.zeros_like(scale)
        for start in range(0, len(rows), ctx.tile):
            part = slice(start, start + ctx.tile)
            cosines = rows[part] @ columns.T
            logits = scale * cosines
            _hide_columns(logits, _part(rows_id, part), columns_id, present, ctx.first + start)
            by_logits = logits.sub_(sums[part, None]).exp_().mul_(weights[part, None])
            by_scale += torch.dot(by_logits.view(-1), cosines.view(-1))
            by_logits *= scale
            by_rows[part] = by_logits @ columns
            by_columns.addmm_(by_logits.T, rows[part])
        return by_rows, by_columns, by_scale, None, None, None, None


def _hide_columns(
    logits: Tensor,
    rows_id: Tensor | None,
    columns_id: Tensor | None,
    present: Tensor | None,
    matched: int,
) -> None:
    """Set the logits of hidden columns to −inf, in place; `matched` is the first row's match."""
    if rows_id is not None and columns_id is not None:
        hidden = rows_id[:, None] == columns_id
        hidden.diagonal(matched).fill_(False)
        logits.masked_fill_(hidden, -torch.inf)
    if present is not None:
        logits.masked_fill_(~present, -torch.inf)


def _part(numbers: Tensor | None, rows: slice) -> Tensor | None:
    return None if numbers is None else numbers[rows]
