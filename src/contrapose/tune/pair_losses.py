"""Losses on pairs of a batch: matching, captioning, and those that have a teacher."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.losses import Loss, LossBatch, all_reduce_sum, global_mean, processes
from contrapose.losses.batch import accumulator_dtype, at_least_float32
from contrapose.losses.eqsim_match import PairPlan
from contrapose.tune.feed import TrainingBatch
from contrapose.tune.objective import Objective, WeightedLoss
from contrapose.tune.students import ImageOutputs, Inputs, Student, slice_rows

PendingLoss = tuple[str, Callable[[], Tensor]]
"""The name of a loss, and the function that computes it."""


class Teacher(Protocol):
    """A teacher model for losses that need one; see `distill.Distiller`.

    Attributes:
        memory: priors of texts computed so far. A run that resumes with them asks for the rest in
            the same batches, and so gets the same digits.
    """

    memory: dict[int, float]

    @property
    def about(self) -> dict[str, Any]:
        """Settings that a resumed run must share, as JSON values."""

    def loss(
        self,
        student: Student,
        batch: TrainingBatch,
        image: Tensor,
        rows: slice = ...,
        loss: Loss = ...,
    ) -> Tensor:
        """Mean loss of some rows of a batch, given the student's image vectors."""


@runtime_checkable
class MatchLoss(Protocol):
    """A loss that needs `match` and can be computed in micro-batches, one pair at a time."""

    def pairs(self, batch: LossBatch) -> tuple[Tensor, Tensor]:
        """(3b,) image and caption indices to judge, in the whole batch; matched pairs first."""

    def of_logits(self, logits: Tensor, rights: int) -> Tensor:
        """Loss of each match logit; the first `rights` are matched pairs."""


@runtime_checkable
class SampledLoss(Protocol):
    """A loss on the match scores of pairs that it samples before they are judged."""

    def plan(self, batch: LossBatch) -> PairPlan:
        """The pairs to judge, the same in every process."""

    def of_scores(self, scores: Tensor, plan: PairPlan) -> Tensor:
        """The loss of the whole batch, given the logits of this process's rows of the plan."""


class RandomState:
    """Snapshot of torch's random generators."""

    def __init__(self) -> None:
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None

    def restore_state(self) -> None:
        """Restore the snapshot."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda)


class SampledScores:
    """Match scores of sampled pairs, each judged by the process and micro-batch of its image.

    In micro-batches every pair is judged twice: without gradients in the first pass, so that the
    loss of all scores and its gradient are known, and again with the image in the second.
    """

    def __init__(
        self, student: Student, loss: SampledLoss, batch: TrainingBatch, vectors: LossBatch
    ):
        """Sample the pairs of a batch.

        Args:
            student: judges them.
            loss: samples them.
            batch: the batch of this process.
            vectors: coarse similarities and seed; features are not used beside those.
        """
        self.student, self.loss = student, loss
        self.plan = loss.plan(vectors)
        self._tokens = {name: processes().gather(it) for name, it in batch.text.items()}
        self._first = processes().rank * len(batch)
        self._logits: Tensor | None = None
        self._gradient: Tensor | None = None
        self._random: dict[tuple[int, int], RandomState] = {}

    def of_states(self, states: Tensor) -> Tensor:
        """The loss of the whole batch, given the states of all images of this process."""
        pairs = self._pairs(slice(0, len(states)))
        logits = self._judge(states, pairs, 0)
        scores = torch.zeros(len(self.plan.images), dtype=logits.dtype, device=logits.device)
        return self._of_logits(all_reduce_sum(scores.index_put((pairs,), logits)))

    @torch.no_grad()
    def judge(self, rows: slice, states: Tensor, most: int) -> None:
        """First pass: judge the pairs of a micro-batch, at most so many at once."""
        for number, pairs in enumerate(torch.split(self._pairs(rows), most)):
            self._random[rows.start, number] = RandomState()
            logits = self._judge(states, pairs, rows.start)
            if self._logits is None:
                self._logits = logits.new_zeros(len(self.plan.images))
            self._logits[pairs] = logits

    def value(self) -> Tensor:
        """The loss of the whole batch, after the first pass; keeps its gradient by the logits."""
        assert self._logits is not None  # noqa: S101 - every image judges its own caption
        logits = processes().sum(self._logits).requires_grad_()
        with torch.enable_grad():
            loss = self._of_logits(logits)
        self._gradient = processes().sum(torch.autograd.grad(loss, logits)[0])
        return loss.detach()

    def surrogates(self, rows: slice, states: Tensor, most: int) -> Iterator[Callable[[], Tensor]]:
        """Second pass: functions of a micro-batch's pairs that have the gradient of the loss."""
        for number, pairs in enumerate(torch.split(self._pairs(rows), most)):
            yield partial(self._surrogate, states, pairs, rows.start, number)

    def _surrogate(self, states: Tensor, pairs: Tensor, start: int, number: int) -> Tensor:
        assert self._gradient is not None  # noqa: S101 - `value` was called
        after = RandomState()
        self._random[start, number].restore_state()
        logits = self._judge(states, pairs, start)
        after.restore_state()
        return (logits * self._gradient[pairs]).sum()

    def _pairs(self, rows: slice) -> Tensor:
        """Indices of the plan's pairs whose image is in some rows of this process."""
        images = self.plan.images - self._first
        return torch.nonzero((images >= rows.start) & (images < rows.stop))[:, 0]

    def _judge(self, states: Tensor, pairs: Tensor, start: int) -> Tensor:
        images = self.plan.images[pairs] - self._first - start
        texts = self.plan.texts[pairs]
        tokens = {name: it[texts] for name, it in self._tokens.items()}
        logits = self.student.match(states[images], tokens)
        return logits.to(at_least_float32(logits.dtype))

    def _of_logits(self, logits: Tensor) -> Tensor:
        return self.loss.of_scores(logits[processes().local(self.plan.places)], self.plan)


class PairLosses:
    """Losses of one batch that need `match`, `tokens` or a `teacher`."""

    def __init__(
        self,
        student: Student,
        objective: Objective,
        teacher: Teacher | None,
        batch: TrainingBatch,
        vectors: LossBatch,
        micro_batches: Sequence[slice],
    ):
        """Draw the pairs to judge, and compute the share of each micro-batch.

        Args:
            student: judges and writes.
            objective: which losses.
            teacher: where a loss needs one.
            batch: the batch of this process.
            vectors: its features.
            micro_batches: the rows of each micro-batch.
        """
        self.student, self.objective, self.teacher = student, objective, teacher
        self.batch, self.vectors, self.micro_batches = batch, vectors, micro_batches
        self._shares = self._micro_batch_shares()
        self._judged: dict[str, tuple[Tensor, Tensor]] = {}
        if objective.needing("match"):
            self._tokens = {name: processes().gather(it) for name, it in batch.text.items()}
        for term in objective.needing("match"):
            if isinstance(term.loss, MatchLoss):
                self._judged[term.name] = _local_pairs(term.loss, vectors)

    def of(
        self, number: int, outputs: ImageOutputs, most: int | None = None
    ) -> Iterator[PendingLoss]:
        """Losses of one micro-batch; a loss may be yielded several times.

        Args:
            number: which micro-batch.
            outputs: of its images.
            most: pairs to judge at once.
        """
        rows, states = self.micro_batches[number], outputs.states
        if states is not None:
            for term in self.objective.needing("match"):
                if isinstance(term.loss, SampledLoss):
                    continue  # `SampledScores` has them
                if not isinstance(term.loss, MatchLoss):
                    yield term.name, partial(self._sampled_match, term.loss, states)
                    continue
                for chunk in self._matching_chunks(term.name, rows, most):
                    yield term.name, partial(self._match, term.loss, rows, states, chunk)
            for name, tokens, has, label in self._hard_captions():
                compute = partial(self._hard_match_loss, rows, states, tokens, has, label)
                yield name, partial(self._share, name, number, compute)
            for term in self.objective.needing("tokens"):
                compute = partial(self._caption_loss, term.loss, rows, states)
                yield term.name, partial(self._share, term.name, number, compute)
        if self.teacher is not None:
            for term in self.objective.needing("teacher"):
                compute = partial(
                    self.teacher.loss, self.student, self.batch, outputs.vectors, rows, term.loss
                )
                yield term.name, partial(self._share, term.name, number, compute)

    def _hard_captions(self) -> Iterator[tuple[str, Inputs, Tensor, float]]:
        """Hard captions to judge: the name of their loss, tokens, presence and label."""
        batch = self.batch
        for judge in self.objective.needing("match"):
            for term in sorted(self.objective.terms, key=_name):
                label = term.match_label
                if label is None or not isinstance(judge.loss, MatchLoss):
                    continue
                tokens = batch.positive if label else batch.negative
                has = batch.has_positive if label else batch.has_negative
                if tokens is not None:
                    yield f"{judge.name}_{term.name}", tokens, has, label

    def _micro_batch_shares(self) -> dict[str, Tensor]:
        """Share of each loss's terms, over all processes, in each micro-batch."""
        counts = {name: has for name, _, has, _ in self._hard_captions()}
        for term in self.objective.needing("tokens"):
            counts[term.name] = (self.student.targets(self.batch.text)[:, 1:] != -100).sum(1)
        for term in self.objective.needing("teacher"):
            counts[term.name] = torch.ones_like(self.batch.captions)
        if not counts:
            return {}
        exact = accumulator_dtype(self.batch.captions.device)
        terms = [[it[rows].sum() for rows in self.micro_batches] for it in counts.values()]
        sums = processes().sum(torch.stack([torch.stack(it) for it in terms]).to(exact))
        return dict(zip(counts, sums / sums.sum(1, keepdim=True).clamp(min=1), strict=True))

    def _share(self, name: str, number: int, compute: Callable[[], Tensor]) -> Tensor:
        loss = compute()
        return loss * self._shares[name][number].to(loss.dtype)

    def _matching_chunks(
        self, name: str, rows: slice, most: int | None
    ) -> Iterator[tuple[Tensor, Tensor, int]]:
        """Chunks of a micro-batch's pairs: images, captions, number of matching pairs."""
        images, texts = self._judged[name]
        rights = rows.stop - rows.start
        if rights < len(self.batch):
            here = (images >= rows.start) & (images < rows.stop)
            images, texts = images[here], texts[here]
        step = most or len(images)
        for start in range(0, len(images), step):
            chunk = slice(start, start + step)
            yield images[chunk], texts[chunk], min(max(rights - start, 0), step)

    def _match(
        self, loss: MatchLoss, rows: slice, states: Tensor, chunk: tuple[Tensor, Tensor, int]
    ) -> Tensor:
        images, texts, rights = chunk
        logits = self._match_logits(states, images - rows.start, texts)
        return loss.of_logits(logits, rights).sum() / (3 * len(self.batch))

    def _sampled_match(self, loss: Loss, states: Tensor) -> Tensor:
        """A loss that judges pairs of its choice, on a batch that is not split."""
        return loss(replace(self.vectors, match=partial(self._match_logits, states)))

    def _match_logits(self, states: Tensor, images: Tensor, texts: Tensor) -> Tensor:
        tokens = {name: it[texts] for name, it in self._tokens.items()}
        return self.student.match(states[images], tokens)

    def _hard_match_loss(
        self, rows: slice, states: Tensor, tokens: Inputs, has: Tensor, label: float
    ) -> Tensor:
        """Matching loss of hard captions."""
        logits = self.student.match(states, slice_rows(tokens, rows))
        logits = logits.to(at_least_float32(logits.dtype))
        labels = torch.full_like(logits, label)
        losses = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        return global_mean(losses, has[rows].to(losses.dtype))

    def _caption_loss(self, loss: Loss, rows: slice, states: Tensor) -> Tensor:
        tokens = slice_rows(self.batch.text, rows)
        logits, targets = self.student.write(states, tokens), self.student.targets(tokens)
        return loss(replace(self.vectors, token_logits=logits, tokens=targets))


def _name(term: WeightedLoss) -> str:
    return term.name


@torch.no_grad()
def _local_pairs(loss: MatchLoss, vectors: LossBatch) -> tuple[Tensor, Tensor]:
    """Pairs to judge with this process's images: image rows here, captions in the whole batch."""
    job = processes()
    size = len(vectors.image)
    first = job.rank * size
    images, captions = loss.pairs(vectors)
    if job.count == 1:
        return images, captions
    # Of wrong images with captions, those where the image is here, whosever the caption is.
    wrong = job.gather(images[2 * size :])
    (here,) = torch.nonzero((wrong >= first) & (wrong < first + size), as_tuple=True)
    images = torch.cat([images[: 2 * size], wrong[here]]) - first
    return images, torch.cat([captions[: 2 * size], here])
