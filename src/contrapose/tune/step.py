"""One training step up to the gradients: forward, losses, backward, whole or in micro-batches."""

from __future__ import annotations

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses.gather import processes
from contrapose.tune.feed import Feed, TrainingBatch
from contrapose.tune.grad_cache import Encode, EncoderOutputs, backward_in_micro_batches, split_rows
from contrapose.tune.objective import (
    BatchVectors,
    Objective,
    loss_weights,
    vector_losses,
    weighted_sum,
)
from contrapose.tune.pair_losses import PairLosses, Teacher
from contrapose.tune.settings import Settings
from contrapose.tune.students import ImageOutputs, Inputs, Student, slice_rows


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
            InputError: the objective cannot be taught in this way.
        """
        self.student, self.objective, self.settings = student, objective, settings
        self.feed, self.teacher, self.device = feed, teacher, device
        if bool(objective.distill) != (teacher is not None):
            raise InputError("--with distill and --teacher MODEL go together.")
        self.pairs = bool(objective.itm or objective.lm or teacher is not None)

    def backward(self, batch: TrainingBatch) -> dict[str, Tensor]:
        """Accumulate gradients; returns the losses."""
        found = (
            self._backward_in_micro_batches(batch)
            if self.settings.pieces > 1
            else self._whole(batch)
        )
        job = processes()
        if self.pairs and job.count > 1:  # processes have parts of losses on pairs
            values = job.sum(torch.stack([loss.float() for loss in found.values()])) / job.count
            return dict(zip(found, values, strict=True))
        return found

    def _whole(self, batch: TrainingBatch) -> dict[str, Tensor]:
        with self._cast():
            seen = self.student.see(batch.pixels)
            vectors = self._vectors(seen.vectors, batch)
            losses = vector_losses(self.student, self.objective, vectors, batch)
            if self.pairs:
                every = [slice(0, len(batch))]
                asked = self._paired(batch, vectors, every).of(0, seen)
                losses |= {name: ask() for name, ask in asked}
        weighted_sum(self.objective, losses).backward()  # type: ignore[no-untyped-call]
        return {name: loss.detach() for name, loss in losses.items()}

    def _vectors(self, image: Tensor, batch: TrainingBatch) -> BatchVectors:
        """Encode captions, negatives and positives in one forward pass."""
        given = [batch.text, batch.negative, batch.positive]
        there = [tokens for tokens in given if tokens is not None]
        lengths = {next(iter(tokens.values())).shape[1] for tokens in there}
        if len(lengths) > 1:
            read = [self.student.read(tokens) for tokens in there]
        else:
            together = {name: torch.cat([each[name] for each in there]) for name in there[0]}
            read = list(self.student.read(together).chunk(len(there)))
        parts = iter(read)
        text, negative, positive = (None if it is None else next(parts) for it in given)
        assert text is not None  # noqa: S101 - a batch has captions
        masked = None if batch.games is None else batch.games.read(self.student)
        return BatchVectors(image, text, negative, positive, masked)

    def _backward_in_micro_batches(self, batch: TrainingBatch) -> dict[str, Tensor]:
        some = split_rows(len(batch), self.settings.pieces)
        found: dict[str, Tensor] = {}
        paired: list[PairLosses] = []

        def losses(vectors: dict[str, Tensor]) -> Tensor:
            each = BatchVectors(**vectors)
            made = vector_losses(self.student, self.objective, each, batch)
            found.update({name: loss.detach() for name, loss in made.items()})
            if self.pairs:
                with self._cast():
                    paired.append(self._paired(batch, each, some))
            return weighted_sum(self.objective, made)

        def beside(number: int, made: EncoderOutputs) -> None:
            """Each loss there and back before the next, so that memory holds one."""
            counts = loss_weights(self.objective)
            most = 3 * (some[number].stop - some[number].start)
            for name, ask in paired[0].of(
                number, ImageOutputs(made[0], *(made[1:] or [None])), most
            ):
                with self._cast():
                    loss = ask()
                if loss.requires_grad:  # all that it goes through may be frozen
                    (counts[name] * loss).backward()  # type: ignore[no-untyped-call]
                found[name] = found.get(name, 0) + loss.detach()

        encoders = self._encoders(batch)
        backward_in_micro_batches(encoders, some, losses, {"image": beside} if self.pairs else None)
        return found

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

        def play(rows: slice) -> EncoderOutputs:
            assert batch.games is not None  # noqa: S101 - asked only where there are some
            with self._cast():
                return (batch.games.read(self.student, rows),)

        texts = {"text": batch.text, "negative": batch.negative, "positive": batch.positive}
        found = {name: reads(it) for name, it in texts.items() if it is not None}
        return {"image": see, **found, **({} if batch.games is None else {"masked": play})}

    def _paired(self, batch: TrainingBatch, vectors: BatchVectors, some: list[slice]) -> PairLosses:
        return PairLosses(self.student, self.objective, self.teacher, batch, vectors, some)

    def _cast(self) -> torch.autocast:
        kind = torch.device(self.device).type
        return torch.autocast(kind, torch.bfloat16, enabled=self.settings.dtype == "bf16")
