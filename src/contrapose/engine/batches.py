"""Scoring of what is missing: batches are planned, answered and written to the store.

Where a GPU has room, the first batch of a request is scored at once, and the others grow by the
memory that it takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any, Self

import numpy as np

from contrapose.engine import memory
from contrapose.engine.batch_cuts import cut_batches, pack_missing
from contrapose.engine.columns import ScoredBatch
from contrapose.engine.context import ScoreRequest
from contrapose.engine.executor import BatchWork, LateJobs, LocalExecutor
from contrapose.engine.pace import report_phase
from contrapose.engine.part_writer import PartWriter
from contrapose.engine.pending import (
    MISSING,
    PendingRequest,
    RequestCut,
    cut_request,
    find_pending,
    find_share,
    find_sound,
    group_pairs,
)
from contrapose.engine.refusals import store_refusals
from contrapose.engine.shards import ShardSurvey
from contrapose.files import gc_frozen
from contrapose.metrics import FloatArray, IntArray

Job = tuple[BatchWork[ScoredBatch], IntArray]
"""Batch with the work that it is of."""


@gc_frozen()
def score_missing(*requests: ScoreRequest) -> list[IntArray]:
    """Score what is missing of requests; return each pair's row in the table, −1 for no score.

    Raises:
        InputError: scores are missing and only the cache may be used, or the model's output is
            invalid.
    """
    with _Scoring() as scoring:
        pending = scoring.add(*requests)
        if pending:
            scoring.run(pending)
    return scoring.find_rows()


@gc_frozen()
def score_images_first(
    images: ScoreRequest, build_captions: Callable[[], ScoreRequest], counted: Future[Any] | None
) -> tuple[IntArray, ScoreRequest, IntArray]:
    """Score images, and captions whenever no batch of images is decoded and after them.

    Args:
        images: the request for the images, whose executor is a `LocalExecutor`.
        build_captions: builds the request for the captions.
        counted: the captions' tokens when they are counted; None where they are counted last.

    Returns:
        The rows of the images, the request for the captions, and their rows; as `score_missing`.

    Raises:
        InputError: as `score_missing`.
    """
    with _Scoring() as scoring:
        captions = _LateCaptions(scoring, build_captions, counted)
        scoring.run(scoring.add(images), captions)
    image_rows, text_rows = scoring.find_rows()
    return image_rows, scoring.requests[1], text_rows


def prepare_early(request: ScoreRequest) -> bool:
    """Let decoder processes prepare images before the request is scored; false where none does."""
    context, executor = request.context, request.context.executor
    if not isinstance(executor, LocalExecutor) or executor.decoders is None:
        return False
    if context.shard is not None or context.cache_use == "only":
        return False
    missing = request.pairs[request.find_rows() == MISSING, 0]
    for key in dict.fromkeys(missing.tolist()):
        task = request.decode_task(key)
        if task is not None and not executor.prepare_early(task):
            break
    return bool(executor.early)


def score_values(request: ScoreRequest) -> FloatArray:
    """Score what is missing of a request; return the score of each pair, NaN where it has none."""
    (rows,) = score_missing(request)
    return request.table.values(rows)


class _Scoring:
    """Scoring of requests in progress; leaving the context writes what was scored.

    Attributes:
        requests: the requests, in the order in which they were added.
        known: of each the rows of its pairs when it was added.
        pending: those of which something is missing.
    """

    def __init__(self) -> None:
        self.requests: list[ScoreRequest] = []
        self.known: list[IntArray] = []
        self.pending: list[PendingRequest] = []
        self._writers: dict[int, tuple[object, PartWriter | None]] = {}
        self._stack = ExitStack()
        self._last = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def add(self, *requests: ScoreRequest) -> list[PendingRequest]:
        """Look up the scores of requests, and return those of which some are missing.

        The progress of one is shown when those before it are done.
        """
        context = requests[0].context
        cuts: list[RequestCut | None] = [None] * len(requests)
        survey = context.shard if isinstance(context.shard, ShardSurvey) else None
        scores_again = context.shard is not None and context.cache_use == "refresh"
        if scores_again or (context.shard is not None and context.shard.share_only):
            cuts = [cut_request(request) for request in requests]
        with report_phase(context.progress, "looking up scores"):
            find = ScoreRequest.find_rows if survey is None else find_sound
            rows = [
                find(request) if cut is None else find_share(cut)
                for request, cut in zip(requests, cuts, strict=True)
            ]
        if survey is not None:
            survey.newest.extend(request.table.shard_count for request in requests)
        elif context.cache_use != "only":
            for request, known in zip(requests, rows, strict=True):
                request.expect_images(known == MISSING)  # they start while captions are tokenized
        pending = [
            item
            for request, known, cut in zip(requests, rows, cuts, strict=True)
            if (item := find_pending(request, known == MISSING, cut)) is not None
        ]
        self.requests += requests
        self.known += rows
        self.pending += pending
        for item in pending:
            self._writers[id(item.request)] = item.request, item.writer
            self._stack.enter_context(item.writer)
            _announce_images(item)
        self._show_progress()
        return pending

    def run(self, pending: Sequence[PendingRequest], late: _LateCaptions | None = None) -> None:
        """Score what is missing of requests, and late captions meanwhile.

        All requests are one run of the executor. On a GPU, where a first batch is scored to plan
        the others, each is a run of its own, so that the images of the second are decoded while the
        first is scored.
        """
        if not memory.uses_cuda() or not any(map(_has_trial, pending)):
            self._execute([job for item in pending for job in self.plan(item)], (), late)
            return
        for number, item in enumerate(pending):
            upcoming: list[Job] = [
                (after.request, after.order[after.missing[after.order]])
                for after in pending[number + 1 :]
            ]
            jobs = self.plan(item)
            if _has_trial(item):
                self._execute([next(jobs)])
            self._execute(list(jobs), upcoming, late if item is pending[-1] else None)

    def _execute(
        self,
        jobs: Sequence[Job],
        upcoming: Sequence[Job] = (),
        late: _LateCaptions | None = None,
    ) -> None:
        executor = self.requests[0].context.executor
        if late is not None and isinstance(executor, LocalExecutor):
            executor.run(jobs, self._keep, upcoming, late)
        else:
            executor.run(jobs, self._keep, upcoming)

    def plan(self, item: PendingRequest) -> Iterator[Job]:
        """Cut what is left to score into batches, growing them by the memory of the first.

        Where the user gives no batch size, the first batch is scored at once, before the second is
        taken, and the others grow by the memory that it takes. It is scored again when a run is
        resumed, so that the others are the same.
        """
        request, order, missing, stored = item.request, item.order, item.missing, item.stored
        size, batches = request.context.initial_batch_size, item.batches
        if memory.uses_cuda() and _has_trial(item):
            groups = group_pairs(request, order)
            first = order[cut_batches(groups[: size + 1], size)[0]]
            new = not stored[first].any()  # else it is scored again only to measure its memory
            trial = _Trial(request)
            self._writers[id(trial)] = trial, item.writer if new else None
            yield trial, first[missing[first]] if new else first
            size = memory.grow_batch_size(
                len(first), trial.usage, len(order), images=request.has_images
            )
            rest = cut_batches(groups[len(first) :], size)
            batches = [first, *(order[len(first) + batch] for batch in rest)]
            missing = missing.copy()
            missing[first] &= not new
        yield from ((request, batch) for batch in pack_missing(batches, missing, size, stored))

    def _keep(self, work: BatchWork[ScoredBatch], batch: ScoredBatch) -> None:
        _, writer = self._writers[id(work)]
        if writer is None:
            return
        writer.add(batch)
        now = time.monotonic()
        for item in self.pending:
            if item.writer is not writer and item.writer.clock is not None:
                item.writer.clock.exclude(now - self._last)
        self._last = now
        self._show_progress()

    def _show_progress(self) -> None:
        """Show the progress of the first request that is not done."""
        for item in self.pending:
            if item.writer.done < item.writer.total:
                item.writer.begin()
                break

    def find_rows(self) -> list[IntArray]:
        """Find the rows of all requests when what was scored is written; store refusals."""
        for request in self.requests:
            known = request.context.requests
            if known is not None:  # later requests of the run do not plan these pairs again
                known.setdefault(request.table.folder, []).append(request)
        tried = {id(item.request): np.flatnonzero(item.missing) for item in self.pending}
        return [
            _find_new_rows(request, known, tried[id(request)]) if id(request) in tried else known
            for request, known in zip(self.requests, self.known, strict=True)
        ]


class _LateCaptions(LateJobs[ScoredBatch]):
    """Jobs of captions, known when their tokens are counted."""

    def __init__(
        self, scoring: _Scoring, build: Callable[[], ScoreRequest], counted: Future[Any] | None
    ) -> None:
        self._counted = counted
        self._jobs = self._plan(scoring, build)

    def is_ready(self) -> bool:
        """Whether the tokens are counted."""
        return self._counted is not None and self._counted.done()

    def take(self) -> Job | None:
        """Take the next job, or None at the end."""
        return next(self._jobs, None)

    def _plan(self, scoring: _Scoring, build: Callable[[], ScoreRequest]) -> Iterator[Job]:
        if self._counted is not None:
            self._counted.result()
        for item in scoring.add(build()):
            yield from scoring.plan(item)


class _Trial:
    """Trial of a request: one batch, whose memory is measured."""

    def __init__(self, request: ScoreRequest) -> None:
        self._request = request
        self.inputs, self.prepare = request.inputs, request.prepare
        self.decode_task, self.input_size = request.decode_task, request.input_size
        self.usage: memory.MemoryUsage | None = None

    def answer(self, batch: IntArray, ready: Any) -> ScoredBatch:
        """Score the batch, and measure what it takes."""
        answers: list[ScoredBatch] = []
        self.usage = memory.measure_memory(
            lambda: answers.append(self._request.answer(batch, ready))
        )
        return answers[0]


def _has_trial(item: PendingRequest) -> bool:
    """Whether a first batch is scored to see how much memory it takes."""
    context = item.request.context
    return context.batch_size is None and memory.can_grow(
        context.initial_batch_size, len(item.order), images=item.request.has_images
    )


def _announce_images(item: PendingRequest) -> None:
    """Announce the images to be opened to the image cache."""
    request = item.request
    if request.refs:
        pairs = request.pairs[item.order[item.missing[item.order]]]
        images = list(dict.fromkeys(pairs[:, 0].tolist()))
        request.context.images.expect(
            [request.image_ids[i] for i in images], [request.refs[i] for i in images]
        )


def _find_new_rows(request: ScoreRequest, known: IntArray, tried: IntArray) -> IntArray:
    """Find the rows of pairs that were tried; store refusals, and count the new rows of a shard."""
    rows = known.copy()
    rows[tried] = request.find_rows(tried)
    store_refusals(request, tried, rows)
    if request.context.shard is not None:
        request.context.shard.scored[request.label] += int((rows[tried] >= 0).sum())
    return rows
