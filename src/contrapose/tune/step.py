"""One step up to the gradients: vectors, losses, and the way back, whole or in pieces."""

from __future__ import annotations

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.tune.feed import Batch, Feed
from contrapose.tune.losses.gather import processes
from contrapose.tune.objective import Objective
from contrapose.tune.paired import PairLosses, Teacher
from contrapose.tune.pieces import Encode, Made, backward_in_pieces, cut
from contrapose.tune.settings import Settings
from contrapose.tune.students.student import Inputs, Seen, Student, some_rows
from contrapose.tune.terms import Vectors, total, vector_losses, weights


class Lesson:
    """What a batch teaches."""

    def __init__(
        self,
        student: Student,
        objective: Objective,
        settings: Settings,
        feed: Feed,
        teacher: Teacher | None,
        device: str,
    ):
        """A lesson for every batch.

        Raises:
            InputError: the objective cannot be taught in this way.
        """
        self.student, self.objective, self.settings = student, objective, settings
        self.feed, self.teacher, self.device = feed, teacher, device
        if bool(objective.distill) != (teacher is not None):
            raise InputError("--with distill and --teacher MODEL go together.")
        self.pairs = bool(objective.itm or objective.lm or teacher is not None)

    def backward(self, batch: Batch) -> dict[str, Tensor]:
        """Leaves gradients; gives the losses."""
        found = self._in_pieces(batch) if self.settings.pieces > 1 else self._whole(batch)
        job = processes()
        if self.pairs and job.count > 1:  # processes have parts of losses on pairs
            values = job.sum(torch.stack([loss.float() for loss in found.values()])) / job.count
            return dict(zip(found, values, strict=True))
        return found

    def _whole(self, batch: Batch) -> dict[str, Tensor]:
        with self._cast():
            seen = self.student.see(batch.pixels)
            vectors = self._vectors(seen.vectors, batch)
            losses = vector_losses(self.student, self.objective, vectors, batch)
            if self.pairs:
                every = [slice(0, len(batch))]
                asked = self._paired(batch, vectors, every).of(0, seen)
                losses |= {name: ask() for name, ask in asked}
        total(self.objective, losses).backward()  # type: ignore[no-untyped-call]
        return {name: loss.detach() for name, loss in losses.items()}

    def _vectors(self, image: Tensor, batch: Batch) -> Vectors:
        """Captions and their changes, read in one go."""
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
        return Vectors(image, text, negative, positive, masked)

    def _in_pieces(self, batch: Batch) -> dict[str, Tensor]:
        some = cut(len(batch), self.settings.pieces)
        found: dict[str, Tensor] = {}
        paired: list[PairLosses] = []

        def losses(vectors: dict[str, Tensor]) -> Tensor:
            each = Vectors(**vectors)
            made = vector_losses(self.student, self.objective, each, batch)
            found.update({name: loss.detach() for name, loss in made.items()})
            if self.pairs:
                with self._cast():
                    paired.append(self._paired(batch, each, some))
            return total(self.objective, made)

        def beside(number: int, made: Made) -> None:
            """Each loss there and back before the next, so that memory holds one."""
            counts = weights(self.objective)
            most = 3 * (some[number].stop - some[number].start)
            for name, ask in paired[0].of(number, Seen(made[0], *(made[1:] or [None])), most):
                with self._cast():
                    loss = ask()
                if loss.requires_grad:  # all that it goes through may be frozen
                    (counts[name] * loss).backward()  # type: ignore[no-untyped-call]
                found[name] = found.get(name, 0) + loss.detach()

        encoders = self._encoders(batch)
        backward_in_pieces(encoders, some, losses, {"image": beside} if self.pairs else None)
        return found

    def _encoders(self, batch: Batch) -> dict[str, Encode]:
        """What makes vectors of some rows, and states of images where something looks at them."""

        def see(rows: slice) -> Made:
            with self._cast():
                vectors, states = self.student.see(some_rows(batch.pixels, rows))
            return (vectors,) if states is None else (vectors, states)

        def reads(tokens: Inputs) -> Encode:
            def read(rows: slice) -> Made:
                with self._cast():
                    return (self.student.read(some_rows(tokens, rows)),)

            return read

        def play(rows: slice) -> Made:
            assert batch.games is not None  # noqa: S101 - asked only where there are some
            with self._cast():
                return (batch.games.read(self.student, rows),)

        texts = {"text": batch.text, "negative": batch.negative, "positive": batch.positive}
        found = {name: reads(it) for name, it in texts.items() if it is not None}
        return {"image": see, **found, **({} if batch.games is None else {"masked": play})}

    def _paired(self, batch: Batch, vectors: Vectors, some: list[slice]) -> PairLosses:
        return PairLosses(self.student, self.objective, self.teacher, batch, vectors, some)

    def _cast(self) -> torch.autocast:
        kind = torch.device(self.device).type
        return torch.autocast(kind, torch.bfloat16, enabled=self.settings.dtype == "bf16")
