"""One training step up to the gradients: forward, losses, backward, in one go or in micro-batches.

Micro-batches follow GradCache (Gao et al. 2021): the exact gradient of a large batch in the memory
of a small one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from contrapose.errors import InputError, option
from contrapose.losses import LossBatch, processes
from contrapose.tune.feed import Feed, TrainingBatch
from contrapose.tune.objective import (
    PAIR_NEEDS,
    BatchVectors,
    Objective,
    coarse_similarities,
    loss_batch,
    loss_weights,
    vector_losses,
    weighted_sum,
)
from contrapose.tune.pair_losses import (
    MatchLoss,
    PairLosses,
    RandomState,
    SampledLoss,
    SampledScores,
    Teacher,
)
from contrapose.tune.settings import Settings
from contrapose.tune.students import ImageOutputs, Inputs, Student, slice_rows

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


def can_record(step: TrainingStep) -> bool:
    """Whether a step can be captured: fixed shapes, no device synchronization.

    Losses on pairs draw and choose on the way; games send the places of their patterns to the
    device; processes wait for each other.
    """
    return (
        torch.device(step.device).type == "cuda"
        and step.student.steady
        and step.settings.pieces == 1
        and not step.pairs
        and not step.objective.needs & {"masked", "coarse"}
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


EncoderOutputs = tuple[Tensor, ...]
"""Vectors of some rows of a batch, and further outputs of the encoder."""
Encode = Callable[[slice], EncoderOutputs]
ExtraLosses = Callable[[int, EncoderOutputs], None]
"""Accumulates gradients of further losses on the outputs of a micro-batch, and on weights."""

Gradients = Sequence[Tensor | None]


def split_rows(size: int, count: int) -> list[slice]:
    """Row slices of the micro-batches; fewer where there are fewer rows."""
    count = min(count, size)
    return [slice(size * i // count, size * (i + 1) // count) for i in range(count)]


def backward_in_micro_batches(
    encoders: Mapping[str, Encode],
    micro_batches: Sequence[slice],
    losses: Callable[[dict[str, Tensor]], Tensor],
    further: Mapping[str, ExtraLosses] | None = None,
    watch: Mapping[str, ExtraLosses] | None = None,
) -> None:
    """Accumulate the gradients of a loss on the whole batch, micro-batch by micro-batch.

    Args:
        encoders: by name, what encodes some rows.
        micro_batches: the rows of each micro-batch.
        losses: the loss of all vectors, by the same names.
        further: by encoder, further losses of each micro-batch; they add to the same gradients.
        watch: by encoder, called with the outputs of the first pass, which has no gradients.
    """
    random: dict[str, list[RandomState]] = {}
    vectors: dict[str, Tensor] = {}
    for name, encode in encoders.items():
        random[name] = []
        parts = []
        for number, rows in enumerate(micro_batches):
            random[name].append(RandomState())
            with torch.no_grad():
                first = encode(rows)
                if watch and name in watch:
                    watch[name](number, first)
            parts.append(first[0])
        vectors[name] = torch.cat(parts).requires_grad_()
    losses(vectors).backward()  # type: ignore[no-untyped-call]
    after = RandomState()
    for name, encode in encoders.items():
        extra = (further or {}).get(name)
        gradient = vectors[name].grad
        if gradient is None and extra is None:
            continue
        for number, rows in enumerate(micro_batches):
            random[name][number].restore_state()
            outputs = encode(rows)
            local = None if gradient is None else gradient[rows]
            gradients: Gradients = [local, *[None] * (len(outputs) - 1)]
            if extra is not None:
                # What it draws is drawn nowhere else.
                after.restore_state()
                gradients = _add_extra_gradients(outputs, gradients, partial(extra, number))
                after = RandomState()
            _backward_outputs(outputs, gradients)
    after.restore_state()


def _add_extra_gradients(
    outputs: EncoderOutputs, gradients: Gradients, extra: Callable[[EncoderOutputs], None]
) -> Gradients:
    """Gradients with those of extra losses added."""
    leaves = tuple(it.detach().requires_grad_(it.requires_grad) for it in outputs)
    for leaf, gradient in zip(leaves, gradients, strict=True):
        leaf.grad = gradient if leaf.requires_grad else None
    extra(leaves)
    return [leaf.grad for leaf in leaves]


def _backward_outputs(outputs: EncoderOutputs, gradients: Gradients) -> None:
    pairs = [
        (output, gradient)
        for output, gradient in zip(outputs, gradients, strict=True)
        if output.requires_grad and gradient is not None
    ]
    if pairs:
        torch.autograd.backward([it for it, _ in pairs], [gradient for _, gradient in pairs])


class TrainingStep:
    """One training step: forward, losses, backward."""

    def __init__(
        self,
        student: Student,
        objective: Objective,
        settings: Settings,
        feed: Feed,
        teacher: Teacher | None,
        device: str,
    ):
        """A step for any batch of the feed.

        Raises:
            InputError: the objective cannot be trained in this way.
        """
        self.student, self.objective, self.settings = student, objective, settings
        self.feed, self.teacher, self.device = feed, teacher, device
        if ("teacher" in objective.needs) != (teacher is not None):
            raise InputError(f"distill and {option('teacher')} go together.")
        if settings.pieces > 1 or processes().count > 1:
            for term in objective.needing("match"):
                if not isinstance(term.loss, MatchLoss | SampledLoss):
                    raise InputError(f"{term.name} needs the whole batch in one piece and process.")
        self.pairs = bool(objective.needs & PAIR_NEEDS)

    def backward(self, batch: TrainingBatch) -> dict[str, Tensor]:
        """Accumulate gradients; returns the losses."""
        if self.settings.pieces > 1:
            losses = self._backward_in_micro_batches(batch)
        else:
            losses = self._backward_at_once(batch)
        job = processes()
        if self.pairs and job.count > 1:  # processes have parts of losses on pairs
            values = job.sum(torch.stack([loss.float() for loss in losses.values()])) / job.count
            return dict(zip(losses, values, strict=True))
        return losses

    def _backward_at_once(self, batch: TrainingBatch) -> dict[str, Tensor]:
        with self._cast():
            outputs = self.student.see(batch.pixels)
            inputs = loss_batch(self.student, self._encode(outputs.vectors, batch), batch)
            losses = vector_losses(self.student, self.objective, inputs)
            if self.pairs:
                pending = self._pair_losses(batch, inputs, [slice(0, len(batch))]).of(0, outputs)
                losses |= {name: compute() for name, compute in pending}
                for name, scores in self._sampled_scores(batch).items():
                    assert outputs.states is not None  # noqa: S101 - the student judges pairs
                    losses[name] = scores.of_states(outputs.states)
        weighted_sum(self.objective, losses).backward()  # type: ignore[no-untyped-call]
        return {name: loss.detach() for name, loss in losses.items()}

    def _encode(self, image: Tensor, batch: TrainingBatch) -> BatchVectors:
        """Encode captions, negatives and positives in one forward pass."""
        texts = [batch.text, batch.negative, batch.positive]
        given = [tokens for tokens in texts if tokens is not None]
        lengths = {next(iter(tokens.values())).shape[1] for tokens in given}
        if len(lengths) > 1:
            vectors = [self.student.read(tokens) for tokens in given]
        else:
            joined = {name: torch.cat([tokens[name] for tokens in given]) for name in given[0]}
            vectors = list(self.student.read(joined).chunk(len(given)))
        parts = iter(vectors)
        text, negative, positive = (None if it is None else next(parts) for it in texts)
        assert text is not None  # noqa: S101 - a batch has captions
        masked = None if batch.masked is None else batch.masked.read(self.student)
        return BatchVectors(image, text, negative, positive, masked)

    def _backward_in_micro_batches(self, batch: TrainingBatch) -> dict[str, Tensor]:
        micro_batches = split_rows(len(batch), self.settings.pieces)
        values: dict[str, Tensor] = {}
        pair_losses: list[PairLosses] = []
        sampled = self._sampled_scores(batch)
        most = 3 * max(rows.stop - rows.start for rows in micro_batches)  # pairs judged at once

        def judge_sampled(number: int, outputs: EncoderOutputs) -> None:
            with self._cast():
                for scores in sampled.values():
                    scores.judge(micro_batches[number], outputs[1], most)

        def losses(vectors: dict[str, Tensor]) -> Tensor:
            inputs = loss_batch(self.student, BatchVectors(**vectors), batch)
            losses = vector_losses(self.student, self.objective, inputs)
            values.update({name: loss.detach() for name, loss in losses.items()})
            if self.pairs:
                with self._cast():
                    pair_losses.append(self._pair_losses(batch, inputs, micro_batches))
            values.update({name: scores.value() for name, scores in sampled.items()})
            return weighted_sum(self.objective, losses)

        def further_losses(number: int, outputs: EncoderOutputs) -> None:
            """Forward and backward of one loss before the next, so that memory holds one."""
            weights = loss_weights(self.objective)
            image = ImageOutputs(outputs[0], *(outputs[1:] or [None]))
            for name, compute in pair_losses[0].of(number, image, most):
                with self._cast():
                    loss = compute()
                if loss.requires_grad:  # all that it goes through may be frozen
                    (weights[name] * loss).backward()  # type: ignore[no-untyped-call]
                values[name] = values.get(name, 0) + loss.detach()
            for name, scores in sampled.items():
                for surrogate in scores.surrogates(micro_batches[number], outputs[1], most):
                    with self._cast():
                        loss = surrogate()
                    if loss.requires_grad:
                        (weights[name] * loss).backward()  # type: ignore[no-untyped-call]

        further = {"image": further_losses} if self.pairs else None
        watch = {"image": judge_sampled} if sampled else None
        backward_in_micro_batches(self._encoders(batch), micro_batches, losses, further, watch)
        return values

    def _encoders(self, batch: TrainingBatch) -> dict[str, Encode]:
        """Encoders of micro-batches, with image states where pair losses need them."""

        def see(rows: slice) -> EncoderOutputs:
            with self._cast():
                vectors, states = self.student.see(slice_rows(batch.pixels, rows))
            return (vectors,) if states is None else (vectors, states)

        def reads(tokens: Inputs) -> Encode:
            def read(rows: slice) -> EncoderOutputs:
                with self._cast():
                    return (self.student.read(slice_rows(tokens, rows)),)

            return read

        def read_masked(rows: slice) -> EncoderOutputs:
            assert batch.masked is not None  # noqa: S101 - called only where there are some
            with self._cast():
                return (batch.masked.read(self.student, rows),)

        texts = {"text": batch.text, "negative": batch.negative, "positive": batch.positive}
        encoders = {name: reads(it) for name, it in texts.items() if it is not None}
        masked = {} if batch.masked is None else {"masked": read_masked}
        return {"image": see, **encoders, **masked}

    def _pair_losses(
        self, batch: TrainingBatch, inputs: LossBatch, micro_batches: list[slice]
    ) -> PairLosses:
        return PairLosses(self.student, self.objective, self.teacher, batch, inputs, micro_batches)

    def _sampled_scores(self, batch: TrainingBatch) -> dict[str, SampledScores]:
        """The pairs that losses sample, by the name of the loss."""
        terms = [term for term in self.objective.terms if isinstance(term.loss, SampledLoss)]
        if not terms:
            return {}
        if batch.coarse is None:
            raise InputError(f"{terms[0].name} needs `coarse`, and the batch has none.")
        image, text = batch.coarse
        inputs = LossBatch(
            image, text, scale=self.student.scale()[0].detach(), same=batch.captions,
            coarse=coarse_similarities(batch), seed=batch.seed,
        )  # fmt: skip
        return {
            term.name: SampledScores(self.student, term.loss, batch, inputs)  # type: ignore[arg-type]
            for term in terms
        }

    def _cast(self) -> torch.autocast:
        kind = torch.device(self.device).type
        return torch.autocast(kind, torch.bfloat16, enabled=self.settings.dtype == "bf16")
