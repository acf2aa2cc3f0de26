"""Several kinds of questions asked in one go: images of the next are decoded meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from contrapose.metrics import BoolArray, IntArray
from contrapose.scoring import memory
from contrapose.scoring.asking import Asking
from contrapose.scoring.batches import cut, left
from contrapose.scoring.keeper import Answer, Keeper
from contrapose.scoring.question import Question


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A question of which something is missing.

    Attributes:
        question: what is asked.
        order: positions of all that can be asked, in the order of asking.
        missing: for each position whether it must be.
    """

    question: Question
    order: IntArray
    missing: BoolArray


def ask_together(asking: Asking, jobs: Sequence[Job]) -> None:
    """Ask what is missing, in batches that all there is to ask decides."""
    with ExitStack() as stack:
        keepers = [
            stack.enter_context(
                Keeper(
                    asking.progress, job.question.shelf, job.question.what, int(job.missing.sum())
                )
            )
            for job in jobs
        ]
        for job in jobs:
            _expect(job)
        series = Series([job.question for job in jobs])
        batches: list[IntArray] = []
        keepers[0].begin()
        for number, (job, keeper) in enumerate(zip(jobs, keepers, strict=True)):
            batches += [series.starts[number] + batch for batch in _batches(job, keeper)]

        def keep(answer: tuple[int, Answer]) -> None:
            number, found = answer
            keepers[number].keep(found)
            if keepers[number].done == keepers[number].total and number + 1 < len(keepers):
                keepers[number + 1].begin()

        asking.executor.run(series, batches, keep)


class Series:
    """Questions as one piece of work; the positions of each begin where those before it end."""

    def __init__(self, questions: Sequence[Question]):
        self.questions = questions
        self.starts = np.cumsum([0, *(len(question.pairs) for question in questions)])

    def pieces(self, batch: IntArray) -> list[tuple[int, int]]:
        """The images of a batch, each with the number of its question."""
        number, own = self._own(batch)
        return [(number, piece) for piece in self.questions[number].pieces(own)]

    def prepare(self, piece: tuple[int, int]) -> Any:
        """Make an image ready."""
        return self.questions[piece[0]].prepare(piece[1])

    def answer(self, batch: IntArray, ready: Mapping[Any, Any]) -> tuple[int, Answer]:
        """The answers of a batch, with the number of its question."""
        number, own = self._own(batch)
        made = {piece: image for (_, piece), image in ready.items()}
        return number, self.questions[number].answer(own, made)

    def _own(self, batch: IntArray) -> tuple[int, IntArray]:
        number = int(np.searchsorted(self.starts, batch[0], side="right")) - 1
        return number, batch - self.starts[number]


def _expect(job: Job) -> None:
    question = job.question
    if question.refs:
        asked = job.order[job.missing[job.order]]
        seen = list(dict.fromkeys(question.pairs[asked, 0].tolist()))
        question.asking.pictures.expect(
            [question.image_ids[i] for i in seen], [question.refs[i] for i in seen]
        )


def _batches(job: Job, keeper: Keeper) -> list[IntArray]:
    """What is left to ask, batch by batch.

    Where the user gives no size, the first batch is asked at once, and by the memory that it takes
    the others grow. It is asked again when a run is taken up, so that the others are the same.
    """
    question, order, missing = job.question, job.order, job.missing
    asking = question.asking
    size = asking.size
    pairs = question.sees and question.text_ids != ("",)
    groups = question.pairs[order, 0] if pairs else np.arange(len(order))
    if asking.batch_size is None and memory.may_grow(size, len(order)):
        first = order[cut(groups[: size + 1], size)[0]]
        new = bool(missing[first].all())
        keep = keeper.keep if new else _forget
        usage = memory.measured(lambda: asking.executor.run(question, [first], keep))
        if usage is not None:
            size = memory.grown(len(first), usage, len(order))
            rest = [order[len(first) + places] for places in cut(groups[len(first) :], size)]
            waiting = missing.copy()
            waiting[first] &= not new
            return left([first, *rest], waiting, size)
    return left([order[places] for places in cut(groups, size)], missing, size)


def _forget(answer: Answer) -> None:
    """Its numbers are known; what it took is what was asked for."""
