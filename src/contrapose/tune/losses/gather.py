"""The whole batch of a job of several processes, with gradients through the gathering.

Each process holds equally many rows of the batch. What is computed from gathered rows or summed
totals has the same value in every process. Its gradients follow the rule of
`DistributedDataParallel`, which averages those of the parameters over the processes: the average is
the gradient of the whole batch's loss. A process's own features therefore get their gradient times
the number of processes. Without `torch.distributed` all of this does nothing.
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
    """Those of the job, and which of them this one is."""

    rank: int = 0
    count: int = 1

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all processes, in the order of their ranks; without gradients."""
        if self.count == 1:
            return rows
        parts = [torch.empty_like(rows) for _ in range(self.count)]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes, in place where there are several; without gradients."""
        if self.count > 1:
            dist.all_reduce(value)
        return value

    def own(self, rows: Tensor) -> Tensor:
        """This process's part of gathered rows."""
        each = len(rows) // self.count
        return rows[self.rank * each : (self.rank + 1) * each]

    def alike(self, rows: Tensor) -> None:
        """Refuses batches of different size: the processes would wait for each other for ever."""
        if self.count == 1:
            return
        sizes = self.gather(torch.tensor([len(rows)], device=rows.device)).tolist()
        if len(set(sizes)) > 1:
            raise InputError(
                f"the processes' batches have {', '.join(map(str, sizes))} rows: give each process "
                "equally many, and drop the last incomplete batch."
            )


def processes() -> Processes:
    """The processes of the default group; one, where there is none."""
    if not (dist.is_available() and dist.is_initialized()):
        return Processes()
    return Processes(dist.get_rank(), dist.get_world_size())


def gathered(rows: Tensor) -> Tensor:
    """The rows of all processes, with gradients: the sum of those of all comes back."""
    job = processes()
    if job.count == 1:
        return rows
    job.alike(rows)
    return _Gathered.apply(rows, job)  # type: ignore[no-any-return,no-untyped-call]


def summed(value: Tensor) -> Tensor:
    """The sum of all processes' values, with gradients: the sum of those of all comes back."""
    job = processes()
    if job.count == 1:
        return value
    return _Summed.apply(value, job)  # type: ignore[no-any-return,no-untyped-call]


def mean_of(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """The mean of all processes' values, each with its weight; zero where all weights are."""
    if weights is None:
        weights = torch.ones_like(values)
    top = summed((values * weights).sum())
    return top / summed(weights.detach().sum()).clamp(min=torch.finfo(values.dtype).tiny)


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, job: Processes) -> Tensor:
        ctx.job = job
        return job.gather(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        return ctx.job.own(ctx.job.sum(slope.clone())), None


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, job: Processes) -> Tensor:
        ctx.job = job
        return job.sum(value.clone())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        return ctx.job.sum(slope.clone()), None
