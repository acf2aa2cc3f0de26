"""Batches: order and cut what the plan holds, and run several requests through one executor.

Batches are cut from all that the plan holds, not from what happens to be missing: a run that was
killed and resumed scores the same batches, so that its numbers are the same to the last bit. The
longest captions come first: should memory run out, it does so at once.

Batches are cut from all that the plan holds, not from what happens to be missing: a run that was
killed and taken up again asks the same batches, so that its numbers are the same to the last bit.
The longest captions come first: should memory run out, it does so at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from contrapose.engine import memory
from contrapose.engine.context import ScoreRequest, ScoringContext
from contrapose.engine.store import PartWriter, ScoredBatch
from contrapose.metrics import BoolArray, IntArray


def sort_pairs(pairs: IntArray, lengths: IntArray) -> IntArray:
    """Sort pairs for scoring: by image, images with captions of like length next to each other.

    The captions of one image stand together, so that it is encoded once; images whose captions are
    of like length stand together, so that little is padded.

    Args:
        pairs: (p, 2) image and caption.
        lengths: of the captions.
    """
    if not len(pairs):
        return np.zeros(0, dtype=np.int64)
    image, length = pairs[:, 0], lengths[pairs[:, 1]]
    longest = np.zeros(image.max() + 1, dtype=np.int64)
    np.maximum.at(longest, image, length)
    return np.lexsort((pairs[:, 1], -length, image, -longest[image]))


def cut_batches(groups: IntArray, size: int) -> list[IntArray]:
    """Cut a list into batches of at most `size`, keeping a group in one batch where it fits.

    Args:
        groups: for each place in the list its group; members stand together.
        size: the most of a batch.

    Returns:
        Places, batch by batch. Two batches that follow each other hold more than `size`.
    """
    ends = [*(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
    cuts = [0]
    start = last = 0  # where the batch begins, and the end of the last group that fits in it
    for end in ends:
        if end - start > size and last > start:
            cuts.append(last)
            start = last
        while end - start > size:
            start += size
            cuts.append(start)
        last = end
    if len(groups) > cuts[-1]:
        cuts.append(len(groups))
    return [np.arange(a, b) for a, b in pairwise(cuts)]


def pack_missing(batches: list[IntArray], missing: BoolArray, size: int) -> list[IntArray]:
    """Keep what is missing of each batch; merge neighbors that fit together.

    Batches of which nothing was asked yet stay as they are. Where another benchmark has filled
    most of them, what is left would make many small ones.

    Args:
        batches: positions, batch by batch.
        missing: for each position whether it must be asked.
        size: the most of a batch.
    """
    packed: list[list[IntArray]] = []
    held = 0
    for batch in batches:
        rest = batch[missing[batch]]
        if not rest.size:
            continue
        if not packed or held + rest.size > size:
            packed.append([])
            held = 0
        packed[-1].append(rest)
        held += rest.size
    return [np.concatenate(parts) for parts in packed]


@dataclass(frozen=True, slots=True, eq=False)
class PendingRequest:
    """Score request with missing scores.

    Attributes:
        question: what is asked.
        order: positions of all that can be asked, in the order of asking.
        missing: for each position whether it must be.
    """

    question: ScoreRequest
    order: IntArray
    missing: BoolArray


def run_requests(asking: ScoringContext, jobs: Sequence[PendingRequest]) -> None:
    """Score what is missing of several requests, in batches cut from all there is to score."""
    with ExitStack() as stack:
        keepers = [
            stack.enter_context(
                PartWriter(
                    asking.progress,
                    job.question.answer_table,
                    job.question.what,
                    int(job.missing.sum()),
                )
            )
            for job in jobs
        ]
        for job in jobs:
            _announce_images(job)
        series = RequestSeries([job.question for job in jobs])
        batches: list[IntArray] = []
        keepers[0].begin()
        for number, (job, keeper) in enumerate(zip(jobs, keepers, strict=True)):
            batches += [series.starts[number] + batch for batch in _plan_batches(job, keeper)]

        def keep(answer: tuple[int, ScoredBatch]) -> None:
            number, found = answer
            keepers[number].keep(found)
            if keepers[number].done == keepers[number].total and number + 1 < len(keepers):
                keepers[number + 1].begin()

        asking.executor.run(series, batches, keep)


class RequestSeries:
    """Several requests as one piece of work, with concatenated positions."""

    def __init__(self, questions: Sequence[ScoreRequest]):
        self.questions = questions
        self.starts = np.cumsum([0, *(len(question.pairs) for question in questions)])

    def pieces(self, batch: IntArray) -> list[tuple[int, int]]:
        """List the images of a batch, each with the number of its request."""
        number, own = self._own(batch)
        return [(number, piece) for piece in self.questions[number].pieces(own)]

    def prepare(self, piece: tuple[int, int]) -> Any:
        """Prepare an image."""
        return self.questions[piece[0]].prepare(piece[1])

    def answer(self, batch: IntArray, ready: Mapping[Any, Any]) -> tuple[int, ScoredBatch]:
        """Score a batch, and return it with the number of its request."""
        number, own = self._own(batch)
        made = {piece: image for (_, piece), image in ready.items()}
        return number, self.questions[number].answer(own, made)

    def _own(self, batch: IntArray) -> tuple[int, IntArray]:
        number = int(np.searchsorted(self.starts, batch[0], side="right")) - 1
        return number, batch - self.starts[number]


def _announce_images(job: PendingRequest) -> None:
    question = job.question
    if question.refs:
        asked = job.order[job.missing[job.order]]
        seen = list(dict.fromkeys(question.pairs[asked, 0].tolist()))
        question.asking.pictures.expect(
            [question.image_ids[i] for i in seen], [question.refs[i] for i in seen]
        )


def _plan_batches(job: PendingRequest, keeper: PartWriter) -> list[IntArray]:
    """Cut what is left to score into batches, growing them by the memory of the first.

    Where the user gives no size, the first batch is asked at once, and by the memory that it takes
    the others grow. It is asked again when a run is taken up, so that the others are the same.
    """
    question, order, missing = job.question, job.order, job.missing
    asking = question.asking
    size = asking.size
    pairs = question.sees and question.text_ids != ("",)
    groups = question.pairs[order, 0] if pairs else np.arange(len(order))
    if asking.batch_size is None and memory.can_grow(size, len(order)):
        first = order[cut_batches(groups[: size + 1], size)[0]]
        new = bool(missing[first].all())
        keep = keeper.keep if new else _discard
        usage = memory.measure_memory(lambda: asking.executor.run(question, [first], keep))
        if usage is not None:
            size = memory.grow_batch_size(len(first), usage, len(order))
            rest = [
                order[len(first) + places] for places in cut_batches(groups[len(first) :], size)
            ]
            waiting = missing.copy()
            waiting[first] &= not new
            return pack_missing([first, *rest], waiting, size)
    return pack_missing([order[places] for places in cut_batches(groups, size)], missing, size)


def _discard(answer: ScoredBatch) -> None:
    """Discard a batch that was rescored only to measure its memory."""
