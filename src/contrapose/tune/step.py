"""One step up to the gradients: vectors, losses, and the way back, whole or in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.tune.feed import Batch, Feed
from contrapose.tune.objective import Objective
from contrapose.tune.pieces import Encode, backward_in_pieces
from contrapose.tune.settings import Settings
from contrapose.tune.students.student import Inputs, Student
from contrapose.tune.terms import Vectors, pair_losses, total, vector_losses

if TYPE_CHECKING:
    from contrapose.tune.loop import Teacher


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
        self.pairs = bool(objective.itm or objective.lm)
        if bool(objective.distill) != (teacher is not None):
            raise InputError("--with distill and --teacher MODEL go together.")
        if settings.pieces > 1 and (self.pairs or teacher is not None):
            raise InputError(
                "--accumulate is for losses on vectors: leave it out with itm, lm and distill, "
                "which look at pairs."
            )

    def backward(self, batch: Batch) -> dict[str, Tensor]:
        """Leaves gradients; gives the losses."""
        return self._in_pieces(batch) if self.settings.pieces > 1 else self._whole(batch)

    def _whole(self, batch: Batch) -> dict[str, Tensor]:
        with self._cast():
            seen = self.student.see(batch.pixels)
            vectors = self._vectors(seen.vectors, batch)
            losses = vector_losses(self.student, self.objective, vectors, batch)
            if self.pairs and seen.states is not None:
                losses |= pair_losses(self.student, self.objective, vectors, seen.states, batch)
            if self.teacher is not None:
                losses["distill"] = self.teacher.loss(self.student, batch, seen.vectors)
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
        text, *changed = (None if tokens is None else next(parts) for tokens in given)
        assert text is not None  # noqa: S101 - a batch has captions
        return Vectors(image, text, *changed)

    def _in_pieces(self, batch: Batch) -> dict[str, Tensor]:
        def reads(tokens: Inputs) -> Encode:
            def encode(rows: slice) -> Tensor:
                with self._cast():
                    return self.student.read({name: it[rows] for name, it in tokens.items()})

            return encode

        def see(rows: slice) -> Tensor:
            with self._cast():
                return self.student.see({k: it[rows] for k, it in batch.pixels.items()}).vectors

        texts = {"text": batch.text, "negative": batch.negative, "positive": batch.positive}
        encoders: dict[str, Encode] = {"image": see}
        encoders |= {name: reads(it) for name, it in texts.items() if it is not None}
        found: dict[str, Tensor] = {}

        def losses(vectors: dict[str, Tensor]) -> Tensor:
            made = vector_losses(self.student, self.objective, Vectors(**vectors), batch)
            found.update({name: loss.detach() for name, loss in made.items()})
            return total(self.objective, made)

        backward_in_pieces(encoders, len(batch), self.settings.pieces, losses)
        return found

    def _cast(self) -> torch.autocast:
        kind = torch.device(self.device).type
        return torch.autocast(kind, torch.bfloat16, enabled=self.settings.dtype == "bf16")
