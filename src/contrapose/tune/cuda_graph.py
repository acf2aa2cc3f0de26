"""A training step replayed as a CUDA graph, so that small networks do not wait for launches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from contrapose.losses.gather import processes
from contrapose.tune.feed import TrainingBatch
from contrapose.tune.step import TrainingStep
from contrapose.tune.students import Inputs

StepFunction = Callable[..., dict[str, Tensor]]

WARMUP_STEPS = 8
"""Steps taken as usual before recording: kernels are compiled and chosen, memory is found."""


class GraphReplay:
    """Callable step, recorded once as a CUDA graph and replayed on tensors of the same shapes."""

    def __init__(self, step: StepFunction):
        """Record `step`, which must do all of its work on the current CUDA device."""
        self.step, self.taken = step, 0
        self.graph = torch.cuda.CUDAGraph()
        self.inputs: tuple[Tensor, ...] = ()
        self.outputs: dict[str, Tensor] = {}

    def __call__(self, *inputs: Tensor) -> dict[str, Tensor]:
        """Run one step; the outputs are overwritten by the next."""
        self.taken += 1
        if self.taken <= WARMUP_STEPS:
            return self._aside(inputs)
        if not self.inputs:
            self.inputs = tuple(tensor.clone() for tensor in inputs)
            with torch.cuda.graph(self.graph):
                self.outputs = self.step(*self.inputs)
        for buffer, tensor in zip(self.inputs, inputs, strict=True):
            buffer.copy_(tensor)
        self.graph.replay()
        return self.outputs

    def _aside(self, inputs: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """Run the step on a side stream, as graph capture requires of the steps before it."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            outputs = self.step(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        return outputs


INPUT_FIELDS = ("pixels", "text", "negative", "positive")
"""What a batch has several tensors of."""
TENSOR_FIELDS = ("captions", "negative_texts", "has_negative", "has_positive")
"""What it has one of."""


def can_record(lesson: TrainingStep) -> bool:
    """Whether a step can be captured: fixed shapes, no device synchronization.

    Losses on pairs draw and choose on the way; games send the places of their patterns to the
    device; processes wait for each other.
    """
    return (
        torch.device(lesson.device).type == "cuda"
        and lesson.student.steady
        and lesson.settings.pieces == 1
        and not lesson.pairs
        and not lesson.objective.needs & {"masked", "coarse"}
        and processes().count == 1
    )


class CudaGraphStep:
    """A training step captured once as a CUDA graph and replayed."""

    def __init__(self, training_step: TrainingStep, weights: Iterable[nn.Parameter]):
        self.training_step, self.weights = training_step, list(weights)
        self.captured = GraphReplay(self._run)
        self.like: TrainingBatch | None = None
        self.slopes: list[Tensor | None] | None = None

    def backward(self, batch: TrainingBatch) -> dict[str, Tensor]:
        """Set the gradients; returns the losses, valid until the next batch."""
        self.like = batch
        losses = self.captured(*_flatten_batch(batch))
        if self.captured.inputs:
            if self.slopes is None:  # the graph writes where it wrote when it was recorded
                self.slopes = [weight.grad for weight in self.weights]
            for weight, slope in zip(self.weights, self.slopes, strict=True):
                weight.grad = slope
        return losses

    def _run(self, *tensors: Tensor) -> dict[str, Tensor]:
        assert self.like is not None  # noqa: S101 - `backward` sets it
        return self.training_step.backward(_rebuild_batch(self.like, iter(tensors)))


def _flatten_batch(batch: TrainingBatch) -> list[Tensor]:
    """All tensors of a batch, in a fixed order."""
    tensors = [getattr(batch, name) for name in TENSOR_FIELDS]
    for name in INPUT_FIELDS:
        inputs: Inputs = getattr(batch, name) or {}
        tensors += inputs.values()
    return tensors


def _rebuild_batch(like: TrainingBatch, tensors: Iterator[Tensor]) -> TrainingBatch:
    """A batch of the same structure from other tensors."""
    fields: dict[str, Tensor | Inputs | None] = {name: next(tensors) for name in TENSOR_FIELDS}
    for name in INPUT_FIELDS:
        inputs: Inputs | None = getattr(like, name)
        fields[name] = None if inputs is None else {key: next(tensors) for key in inputs}
    return replace(like, **fields)  # type: ignore[arg-type]
