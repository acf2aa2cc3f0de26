"""Batches: order and cut what the plan holds, score what is missing, write it to the store.

Batches are cut from all that the plan holds, not from what happens to be missing: a run that was
killed and resumed scores the same batches, so that its numbers are the same to the last bit. So do
the shards of a run, of which each takes a share of the batches. The longest captions come first:
should memory run out, it does so at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from contrapose.engine import memory
from contrapose.engine.batch_cuts import cut_batches, pack_missing, sort_pairs
from contrapose.engine.columns import ScoredBatch
from contrapose.engine.context import NO_ID, ScoreRequest
from contrapose.engine.executor import BatchWork, Jobs, LocalExecutor
from contrapose.engine.pace import PaceBook, PaceClock, report_phase
from contrapose.engine.pair_index import PairIds, PairIndex, pack_ids
from contrapose.engine.part_writer import PartWriter
from contrapose.engine.plan import (
    count_tokens,
    find_unreadable_captions,
    skip_unreadable_images,
)
from contrapose.engine.refusals import find_refusals, skip_refused, store_refusals
from contrapose.engine.shards import UNKNOWN_NOTE, LackingRequest, ShardSurvey
from contrapose.errors import InputError, option
from contrapose.files import digest, gc_frozen
from contrapose.metrics import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class _PendingRequest:
    """Score request with missing scores.

    Attributes:
        request: the request.
        order: positions of all pairs whose captions can be scored, in the order of scoring; of
            a shard its own ones.
        missing: for each position whether it must be scored.
        stored: for each position whether its score is stored.
        writer: receives the scored batches.
        batches: positions of the batches, cut by the initial size; of a shard its own ones.
    """

    request: ScoreRequest
    order: IntArray
    missing: BoolArray
    stored: BoolArray
    writer: PartWriter
    batches: list[IntArray]


@gc_frozen()
def score_missing(*requests: ScoreRequest) -> list[IntArray]:
    """Score what is missing of requests; return each pair's row in the table, −1 for no score.

    Raises:
        InputError: scores are missing and only the cache may be used, or the model's output is
            invalid.
    """
    context = requests[0].context
    if context.shard is not None and context.shard.share_only:
        cuts: list[_RequestCut | None] = [_cut_request(request) for request in requests]
        with report_phase(context.progress, "looking up scores"):
            rows = [_find_share(cut) for cut in cuts if cut is not None]
    else:
        cuts = [None] * len(requests)
        with report_phase(context.progress, "looking up scores"):
            rows = [request.find_rows() for request in requests]
    if context.cache_use != "only" and not isinstance(context.shard, ShardSurvey):
        for request, known in zip(requests, rows, strict=True):
            request.expect_images(known == MISSING)  # they start while captions are tokenized
    pending = [
        item
        for request, known, cut in zip(requests, rows, cuts, strict=True)
        if (item := _find_pending(request, known == MISSING, cut)) is not None
    ]
    if not pending:
        _remember(requests)
        return rows
    writers = {id(item.request): item.writer for item in pending}
    order = [item.writer for item in pending]

    def keep(request: BatchWork[ScoredBatch], batch: ScoredBatch) -> None:
        writer = writers[id(request)]
        writer.add(batch)
        after = order.index(writer) + 1
        if writer.done == writer.total and after < len(order):
            order[after].begin()

    with ExitStack() as stack:
        for item in pending:
            stack.enter_context(item.writer)
            _announce_images(item)
        order[0].begin()
        for jobs, upcoming in _plan_runs(pending):
            context.executor.run(jobs, keep, upcoming)
    _remember(requests)
    tried = {id(item.request): np.flatnonzero(item.missing) for item in pending}
    return [
        _find_new_rows(request, known, tried[id(request)]) if id(request) in tried else known
        for request, known in zip(requests, rows, strict=True)
    ]


def _find_new_rows(request: ScoreRequest, known: IntArray, tried: IntArray) -> IntArray:
    """Find the rows of pairs that were tried; store refusals, and count the new rows of a shard."""
    rows = known.copy()
    rows[tried] = request.find_rows(tried)
    store_refusals(request, tried, rows)
    if request.context.shard is not None:
        request.context.shard.scored[request.label] += int((rows[tried] >= 0).sum())
    return rows


def prepare_early(request: ScoreRequest) -> bool:
    """Let decoder processes prepare images before the request is scored; false where none does."""
    context, executor = request.context, request.context.executor
    if not isinstance(executor, LocalExecutor) or executor.decoders is None:
        return False
    if context.shard is not None or context.cache_use == "only":
        return False
    executor.prepare_early([(request, np.flatnonzero(request.find_rows() == MISSING))])
    return bool(executor.early)


def score_values(request: ScoreRequest) -> FloatArray:
    """Score what is missing of a request; return the score of each pair, NaN where it has none."""
    (rows,) = score_missing(request)
    return request.table.values(rows)


MISSING, UNKNOWN = -1, -2
"""Rows of pairs that the table does not hold, and of those that were not looked up."""

MAX_TALLY = 1 << 20
"""Pairs of a request up to which a shard looks up which scores of other shards are stored."""


@dataclass(frozen=True, slots=True, eq=False)
class _RequestCut:
    """Batches of a score request, which do not depend on what is stored.

    Attributes:
        request: the request.
        order: positions of all pairs whose captions can be scored, in the order of scoring.
        batches: positions, batch by batch, cut by the initial size.
    """

    request: ScoreRequest
    order: IntArray
    batches: list[IntArray]

    @property
    def images(self) -> Sequence[int]:
        """First image of each batch, where one shard should encode all captions of an image."""
        if not self.request.encoded:
            return ()
        return list(self.request.pairs[[batch[0] for batch in self.batches], 0].tolist())


def _cut_request(request: ScoreRequest) -> _RequestCut:
    """Order and cut the pairs whose captions can be scored; record the others as skipped.

    What earlier requests of the run have planned is left out of the batches. What is stored does
    not matter, so that all shards cut the same batches, and also a run that goes on where another
    ended.
    """
    lengths, readable = _count_lengths(request)
    order = sort_pairs(request.pairs, lengths)
    order = order[readable[request.pairs[order, 1]]]
    size = request.context.initial_batch_size
    batches = [order[batch] for batch in cut_batches(_group_pairs(request, order), size)]
    earlier = (request.context.requests or {}).get(request.table.folder)
    if earlier:
        planned = [PairIds.take(other.image_ids, other.text_ids, other.pairs) for other in earlier]
        known = PairIndex.of(PairIds.concatenate(planned))
        ids = pack_ids(request.image_ids), pack_ids(request.text_ids)
        batches = pack_missing(batches, known.find(*ids, request.pairs) < 0, size)
    return _RequestCut(request, order, batches)


def _count_lengths(request: ScoreRequest) -> tuple[IntArray, BoolArray]:
    """Count the captions' tokens, and tell which can be scored; the others are skipped."""
    context = request.context
    readable = np.ones(len(request.text_ids), dtype=np.bool_)
    if request.text_ids is NO_ID:
        return np.zeros(1, dtype=np.int64), readable
    with report_phase(context.progress, "counting tokens"):
        lengths = count_tokens(context, request.texts)
    for j, skip in find_unreadable_captions(context, request.texts, lengths).items():
        context.skips.texts[request.score, request.text_ids[j]] = skip
        readable[j] = False
    return lengths, readable


def _find_share(cut: _RequestCut) -> IntArray:
    """Find the rows of a shard's pairs, and of few pairs of others whether they have rows."""
    request, shard = cut.request, cut.request.context.shard
    rows = np.full(len(request.pairs), UNKNOWN, dtype=np.int64)
    batches = cut.batches if shard is None else shard.take(cut.batches, cut.images)
    if batches:
        share = np.concatenate(batches)
        rows[share] = request.find_rows(share)
    others = np.flatnonzero(rows == UNKNOWN)
    if len(request.pairs) <= MAX_TALLY:
        rows[others] = request.find_rows(others, check=False)
    elif shard is not None:
        shard.notes[UNKNOWN_NOTE] = None
    return rows


def _find_pending(
    request: ScoreRequest, missing: BoolArray, cut: _RequestCut | None
) -> _PendingRequest | None:
    """Find what is missing of a request and can be scored; None when there is nothing."""
    context, pairs = request.context, request.pairs
    if not missing.any():
        return None
    stored = ~missing
    cut = cut or _cut_request(request)
    if isinstance(context.shard, ShardSurvey):
        images = np.unique(pairs[missing, 0]).tolist() if request.refs else ()
        skip_unreadable_images(context, {request.image_ids[i]: request.refs[i] for i in images})
    if isinstance(context.shard, ShardSurvey) or context.cache_use == "only":
        skip_refused(request, missing)
    missing = missing & _is_scorable(request, missing)
    if not missing.any():
        return None
    if context.cache_use == "only":
        raise InputError(
            f"{int(missing.sum()):,} of {len(pairs):,} answers of {context.model.name} "
            f"({request.label}) are not in the cache; "
            f"leave out {option('cache_use', 'only')} to ask for them."
        )
    order, batches = cut.order, cut.batches
    if context.shard is not None:
        batches = _take_share(cut, missing)
        order = np.concatenate([np.zeros(0, dtype=np.int64), *batches])
        share = np.zeros(len(missing), dtype=np.bool_)
        share[order] = True
        missing &= share
        if not missing.any():
            return None
    left = int(missing.sum())
    book = PaceBook(context.store, context.model, context.batch_size)
    writer = PartWriter(context.progress, request.table, request.label, left)
    writer.clock = PaceClock(book, context.progress, request.label, left)
    return _PendingRequest(request, order, missing, stored, writer, batches)


def _remember(requests: Sequence[ScoreRequest]) -> None:
    """Remember the requests of a run, whose pairs later requests do not plan again."""
    for request in requests:
        known = request.context.requests
        if known is not None:
            known.setdefault(request.table.folder, []).append(request)


def _take_share(cut: _RequestCut, missing: BoolArray) -> list[IntArray]:
    """Return the batches of the shard, and record how many scores are left to others."""
    request, shard = cut.request, cut.request.context.shard
    if shard is None:
        return cut.batches
    batches = shard.take(cut.batches, cut.images)
    if isinstance(shard, ShardSurvey):
        counts = [int(missing[batch].sum()) for batch in cut.batches]
        newest = request.table.shard_count
        shard.lacking.append(LackingRequest(request.label, counts, cut.images, newest))
    left = missing.copy()
    for batch in batches:
        left[batch] = False
    if left.any():
        left[list(find_refusals(request, left))] = False
    waiting = sum(int(left[batch].sum()) for batch in cut.batches)
    key = request.table.model, request.table.score, request.label, digest(request.pairs.tobytes())
    if waiting:
        shard.waiting[key] = waiting
    return batches


def _group_pairs(request: ScoreRequest, order: IntArray) -> IntArray:
    """Return for each pair its group, which stays in one batch where it fits: its image."""
    grouped = request.has_images and request.text_ids != NO_ID
    return request.pairs[order, 0] if grouped else np.arange(len(order))


def _is_scorable(request: ScoreRequest, missing: BoolArray) -> BoolArray:
    """Return for each pair whether it is not known to be skipped."""
    skips, pairs = request.context.skips, request.pairs
    images = np.array([name not in skips.images for name in request.image_ids], dtype=np.bool_)
    texts = np.array(
        [(request.score, name) not in skips.texts for name in request.text_ids], dtype=np.bool_
    )
    scorable = np.asarray(images[pairs[:, 0]] & texts[pairs[:, 1]])
    if skips.pairs:
        for p in np.flatnonzero(missing).tolist():
            i, j = pairs[p].tolist()
            key = request.score, request.image_ids[i], request.text_ids[j]
            scorable[p] &= key not in skips.pairs
    return scorable


def _plan_runs(
    pending: Sequence[_PendingRequest],
) -> Iterator[tuple[Jobs[ScoredBatch], Jobs[ScoredBatch]]]:
    """Plan the runs of the executor: the jobs of each, and what comes after them.

    All requests are one run. On a GPU, where a first batch is scored to plan the others, each is a
    run of its own, so that the images of the second are decoded while the first is scored.
    """
    if not memory.uses_cuda() or not any(map(_has_trial, pending)):
        yield [(item.request, batch) for item in pending for batch in _plan_batches(item)], ()
        return
    for number, item in enumerate(pending):
        upcoming = [
            (after.request, after.order[after.missing[after.order]])
            for after in pending[number + 1 :]
        ]
        yield [(item.request, batch) for batch in _plan_batches(item)], upcoming


def _has_trial(item: _PendingRequest) -> bool:
    """Whether a first batch is scored to see how much memory it takes."""
    context = item.request.context
    return context.batch_size is None and memory.can_grow(
        context.initial_batch_size, len(item.order), images=item.request.has_images
    )


def _announce_images(item: _PendingRequest) -> None:
    """Announce the images to be opened to the image cache."""
    request = item.request
    if request.refs:
        pairs = request.pairs[item.order[item.missing[item.order]]]
        images = list(dict.fromkeys(pairs[:, 0].tolist()))
        request.context.images.expect(
            [request.image_ids[i] for i in images], [request.refs[i] for i in images]
        )


def _plan_batches(item: _PendingRequest) -> list[IntArray]:
    """Cut what is left to score into batches, growing them by the memory of the first.

    Where the user gives no batch size, the first batch is scored at once, and the others grow by
    the memory that it takes. It is scored again when a run is resumed, so that the others are the
    same.
    """
    request, order, missing, stored = item.request, item.order, item.missing, item.stored
    context = request.context
    size = context.initial_batch_size
    groups = _group_pairs(request, order)
    if _has_trial(item):
        first = order[cut_batches(groups[: size + 1], size)[0]]
        new = not stored[first].any()
        trial = first[missing[first]] if new else first

        def keep(_request: Any, batch: ScoredBatch) -> None:
            if new:  # else it was scored again only to measure its memory
                item.writer.add(batch)

        usage = memory.measure_memory(lambda: context.executor.run([(request, trial)], keep))
        if usage is not None:
            size = memory.grow_batch_size(len(first), usage, len(order), images=request.has_images)
            rest = cut_batches(groups[len(first) :], size)
            left = missing.copy()
            left[first] &= not new
            grown = [first, *(order[len(first) + batch] for batch in rest)]
            return pack_missing(grown, left, size, stored)
    return pack_missing(item.batches, missing, size, stored)
