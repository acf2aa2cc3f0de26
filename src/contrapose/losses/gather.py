"""Collective operations over the processes of a job, with gradients.

Each process holds equally many rows of the batch. A loss of gathered rows or summed totals has the
same value in every process. Gradients follow `DistributedDataParallel`, which averages those of the
parameters over the processes: the average is the gradient of the loss of the whole batch, so the
features of a process get their gradient times the number of processes. Without
`torch.distributed` these operations do nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from contrapose.errors import InputError


@dataclass(frozen=True, slots=True)
class Processes:
    """The process group's size and this process's rank, with its collective operations."""

    rank: int = 0
    count: int = 1

    def gather(self, rows: Tensor) -> Tensor:
        """All-gather rows in rank order, without gradients."""
        if self.count == 1:
            return rows
        parts = [torch.empty_like(rows) for _ in range(self.count)]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    def sum(self, value: Tensor) -> Tensor:
        """All-reduce sum, in place with several processes, without gradients."""
        if self.count > 1:
            dist.all_reduce(value)
        return value

    def local(self, rows: Tensor) -> Tensor:
        """This process's slice of gathered rows."""
        count = len(rows) // self.count
        return rows[self.rank * count : (self.rank + 1) * count]

    def require_equal_rows(self, rows: Tensor) -> None:
        """Raise `InputError` on unequal batch sizes, which would deadlock the collectives."""
        if self.count == 1:
            return
        sizes = self.gather(torch.tensor([len(rows)], device=rows.device)).tolist()
        if len(set(sizes)) > 1:
            raise InputError(
                f"the processes' batches have {', '.join(map(str, sizes))} rows: give each process "
                "equally many, and drop the last incomplete batch."
            )


def processes() -> Processes:
    """Size and rank of the default process group; a single process without one."""
    if not (dist.is_available() and dist.is_initialized()):
        return Processes()
    return Processes(dist.get_rank(), dist.get_world_size())


def all_gather(rows: Tensor) -> Tensor:
    """All-gather feature rows; gradients are summed over processes."""
    job = processes()
    if job.count == 1:
        return rows
    job.require_equal_rows(rows)
    return _AllGather.apply(rows, job)  # type: ignore[no-any-return,no-untyped-call]


def all_reduce_sum(value: Tensor) -> Tensor:
    """All-reduce sum of a value; gradients are summed over processes."""
    job = processes()
    if job.count == 1:
        return value
    return _AllReduceSum.apply(value, job)  # type: ignore[no-any-return,no-untyped-call]


def global_mean(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """Weighted mean over the values of all processes; zero where all weights are zero."""
    if weights is None:
        weights = torch.ones_like(values)
    top = all_reduce_sum((values * weights).sum())
    return top / all_reduce_sum(weights.detach().sum()).clamp(min=torch.finfo(values.dtype).tiny)


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, job: Processes) -> Tensor:
        ctx.job = job
        return job.gather(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.job.local(ctx.job.sum(gradient.clone())), None


class _AllReduceSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, job: Processes) -> Tensor:
        ctx.job = job
        return job.sum(value.clone())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.job.sum(gradient.clone()), None
