"""Losses of one batch on image-caption pairs: matching, captioning and distillation.

A batch may be looked at piece by piece. What a piece gives are its shares of the whole batch's
losses, so that pieces add up to them: each pair weighs as much as in one go. Wrong pairs to judge
are drawn from the whole batch by its vectors; each is judged with the piece, and in the process,
that has its image. So no image's states are needed anywhere but where they were made.

In a job of several processes a loss is the mean of what they give, and gradients follow the rule of
`losses.gather`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.losses import Captioning, Match, global_mean, processes
from contrapose.losses.batch import accumulator_dtype
from contrapose.tune.feed import TrainingBatch
from contrapose.tune.objective import BatchVectors, Objective
from contrapose.tune.students import ImageOutputs, Inputs, Student, slice_rows

PendingLoss = tuple[str, Callable[[], Tensor]]
"""The name of a loss, and what computes it."""


class Teacher(Protocol):
    """A teacher model that adds a distillation loss; see `distill.Distiller`.

    Attributes:
        memory: what it has found out about texts so far. With what stands in it a run asks for the
            rest in the same batches, and so gets the same digits.
    """

    memory: dict[int, float]

    @property
    def about(self) -> dict[str, Any]:
        """Settings that a resumed run must share, as JSON values."""

    def loss(
        self, student: Student, batch: TrainingBatch, image: Tensor, rows: slice = ...
    ) -> Tensor:
        """Mean loss of some rows of a batch, given the student's image vectors."""


class PairLosses:
    """Matching, captioning and distillation losses of one batch."""

    def __init__(
        self,
        student: Student,
        objective: Objective,
        teacher: Teacher | None,
        batch: TrainingBatch,
        vectors: BatchVectors,
        pieces: Sequence[slice],
    ):
        """Draw the pairs to judge, and compute the share of each micro-batch.

        Args:
            student: judges and writes.
            objective: which losses.
            teacher: where the objective has one.
            batch: this process's.
            vectors: of all of it.
            pieces: the rows of each piece.
        """
        self.student, self.objective, self.teacher = student, objective, teacher
        self.batch, self.pieces = batch, pieces
        self._shares = self._micro_batch_shares()
        if objective.itm:
            self._tokens = {name: processes().gather(it) for name, it in batch.text.items()}
            self._judged = _draw_pairs(student, vectors, batch)

    def of(self, number: int, seen: ImageOutputs, most: int | None = None) -> Iterator[PendingLoss]:
        """Losses of one micro-batch; a loss may be yielded several times.

        Args:
            number: which piece.
            seen: its images.
            most: pairs to judge at once.
        """
        rows, states = self.pieces[number], seen.states
        if states is not None:
            if self.objective.itm:
                for some in self._matching_chunks(rows, most):
                    yield "itm", partial(self._match, rows, states, some)
            for name, tokens, has, right in self._hard_captions():
                ask = partial(self._hard_match_loss, rows, states, tokens, has, right)
                yield name, partial(self._share, name, number, ask)
            if self.objective.lm:
                yield (
                    "lm",
                    partial(self._share, "lm", number, partial(self._caption_loss, rows, states)),
                )
        if self.teacher is not None:
            ask = partial(self.teacher.loss, self.student, self.batch, seen.vectors, rows)
            yield "distill", partial(self._share, "distill", number, ask)

    def _hard_captions(self) -> Iterator[tuple[str, Inputs, Tensor, float]]:
        batch = self.batch
        for name, tokens, has, right in (
            ("itm_hn", batch.negative, batch.has_negative, 0.0),
            ("itm_hp", batch.positive, batch.has_positive, 1.0),
        ):
            if self.objective.itm and tokens is not None and getattr(self.objective, name[-2:]):
                yield name, tokens, has, right

    def _micro_batch_shares(self) -> dict[str, Tensor]:
        """(pieces,) share of each loss's terms, over all processes, in a micro-batch."""
        counted = {name: has for name, _, has, _ in self._hard_captions()}
        if self.objective.lm:
            counted["lm"] = (self.student.targets(self.batch.text)[:, 1:] != -100).sum(1)
        if self.teacher is not None:
            counted["distill"] = torch.ones_like(self.batch.captions)
        if not counted:
            return {}
        exact = accumulator_dtype(self.batch.captions.device)
        terms = [[it[rows].sum() for rows in self.pieces] for it in counted.values()]
        sums = processes().sum(torch.stack([torch.stack(it) for it in terms]).to(exact))
        return dict(zip(counted, sums / sums.sum(1, keepdim=True).clamp(min=1), strict=True))

    def _share(self, name: str, number: int, ask: Callable[[], Tensor]) -> Tensor:
        loss = ask()
        return loss * self._shares[name][number].to(loss.dtype)

    def _matching_chunks(
        self, rows: slice, most: int | None
    ) -> Iterator[tuple[Tensor, Tensor, int]]:
        """Chunks of a micro-batch's pairs: images, captions, number of matching pairs."""
        images, texts = self._judged
        rights = rows.stop - rows.start
        if rights < len(self.batch):
            here = (images >= rows.start) & (images < rows.stop)
            images, texts = images[here], texts[here]
        step = most or len(images)
        for start in range(0, len(images), step):
            some = slice(start, start + step)
            yield images[some], texts[some], min(max(rights - start, 0), step)

    def _match(self, rows: slice, states: Tensor, some: tuple[Tensor, Tensor, int]) -> Tensor:
        images, texts, rights = some
        tokens = {name: it[texts] for name, it in self._tokens.items()}
        answers = self.student.match(states[images - rows.start], tokens)
        return Match().each(answers, rights).sum() / (3 * len(self.batch))

    def _hard_match_loss(
        self, rows: slice, states: Tensor, tokens: Inputs, has: Tensor, right: float
    ) -> Tensor:
        """Matching loss of hard captions."""
        answers = self.student.match(states, slice_rows(tokens, rows))
        answers = answers.to(torch.promote_types(answers.dtype, torch.float32))
        aim = torch.full_like(answers, right)
        each = F.binary_cross_entropy_with_logits(answers, aim, reduction="none")
        return global_mean(each, has[rows].to(each.dtype))

    def _caption_loss(self, rows: slice, states: Tensor) -> Tensor:
        tokens = slice_rows(self.batch.text, rows)
        return Captioning()(self.student.write(states, tokens), self.student.targets(tokens))


@torch.no_grad()
def _draw_pairs(
    student: Student, vectors: BatchVectors, batch: TrainingBatch
) -> tuple[Tensor, Tensor]:
    """Matching and hard wrong pairs with this process's images: image rows, caption indices."""
    job = processes()
    size, first = len(batch), job.rank * len(batch)
    scale = student.scale()[0].to(vectors.image.device)
    images, texts = job.gather(vectors.image), job.gather(vectors.text)
    same = job.gather(batch.captions)
    twice = batch.captions[:, None] == same
    twice.diagonal(first).fill_(False)
    logits = (
        (scale * a.float() @ b.float().T).masked_fill(twice, -1e4)
        for a, b in ((vectors.image, texts), (vectors.text, images))
    )
    pictures, captions = Match().pairs(*logits)
    if job.count == 1:
        return pictures, captions
    # Of wrong images with captions, those where the image is here, whosever the caption is.
    wrong = job.gather(pictures[2 * size :])
    (here,) = torch.nonzero((wrong >= first) & (wrong < first + size), as_tuple=True)
    pictures = torch.cat([pictures[: 2 * size], wrong[here]]) - first
    return pictures, torch.cat([captions[: 2 * size], here])
