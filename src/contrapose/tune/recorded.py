"""A step up to the gradients as a CUDA graph: small networks do not wait for launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from contrapose.tune.feed import Batch
from contrapose.tune.losses.gather import processes
from contrapose.tune.step import Lesson
from contrapose.tune.students.student import Inputs
from contrapose.world.train.captured import Captured

PARTS = ("pixels", "text", "negative", "positive")
"""What a batch has several tensors of."""
FLAT = ("captions", "has_negative", "has_positive")
"""What it has one of."""


def can_record(lesson: Lesson) -> bool:
    """Whether all batches of a lesson have the same shapes and nothing in it waits for the device.

    Losses on pairs draw and choose on the way; games send the places of their patterns to the
    device; processes wait for each other.
    """
    return (
        torch.device(lesson.device).type == "cuda"
        and lesson.student.steady
        and lesson.settings.pieces == 1
        and not lesson.pairs
        and not lesson.objective.dividend
        and processes().count == 1
    )


class Recorded:
    """The gradients of one batch after another, by a graph that is replayed."""

    def __init__(self, lesson: Lesson, weights: Iterable[nn.Parameter]):
        self.lesson, self.weights = lesson, list(weights)
        self.captured = Captured(self._run)
        self.like: Batch | None = None
        self.slopes: list[Tensor | None] | None = None

    def backward(self, batch: Batch) -> dict[str, Tensor]:
        """Leaves gradients, where there were none; gives the losses, until the next batch."""
        self.like = batch
        losses = self.captured(*_flat(batch))
        if self.captured.inputs:
            if self.slopes is None:  # the graph writes where it wrote when it was recorded
                self.slopes = [weight.grad for weight in self.weights]
            for weight, slope in zip(self.weights, self.slopes, strict=True):
                weight.grad = slope
        return losses

    def _run(self, *tensors: Tensor) -> dict[str, Tensor]:
        assert self.like is not None  # noqa: S101 - `backward` sets it
        return self.lesson.backward(_batch(self.like, iter(tensors)))


def _flat(batch: Batch) -> list[Tensor]:
    """All tensors of a batch, in order."""
    found = [getattr(batch, name) for name in FLAT]
    for name in PARTS:
        inputs: Inputs = getattr(batch, name) or {}
        found += inputs.values()
    return found


def _batch(like: Batch, tensors: Iterator[Tensor]) -> Batch:
    """A batch of the same parts from other tensors."""
    found: dict[str, Tensor | Inputs | None] = {name: next(tensors) for name in FLAT}
    for name in PARTS:
        inputs: Inputs | None = getattr(like, name)
        found[name] = None if inputs is None else {each: next(tensors) for each in inputs}
    return replace(like, **found)  # type: ignore[arg-type]
