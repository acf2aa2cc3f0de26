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
from itertools import pairwise
from typing import Any

import numpy as np

from contrapose.engine import memory
from contrapose.engine.columns import ScoredBatch
from contrapose.engine.context import NO_ID, ScoreRequest
from contrapose.engine.executor import BatchWork, Jobs
from contrapose.engine.pace import PaceBook, PaceClock, report_phase
from contrapose.engine.pair_index import PairIds, PairIndex, pack_ids
from contrapose.engine.part_writer import PartWriter
from contrapose.engine.plan import (
    count_tokens,
    find_unreadable_captions,
    skip_unreadable_images,
)
from contrapose.engine.refusals import find_refusals, skip_refused, store_refusals
from contrapose.engine.shards import LackingRequest, ShardSurvey
from contrapose.errors import InputError, option
from contrapose.files import digest, gc_frozen
from contrapose.metrics import BoolArray, FloatArray, IntArray


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
    image, text = pairs.T
    longest = np.zeros(image.max() + 1, dtype=np.int64)
    np.maximum.at(longest, image, lengths[text])
    rank = np.empty_like(longest)
    rank[np.argsort(-longest, kind="stable")] = np.arange(len(rank))
    top = int(longest.max())
    if len(rank) * (top + 1) * len(lengths) >= 1 << 63:
        return np.lexsort((text, -lengths[text], rank[image]))
    key = rank[image]  # one number for each pair: a sort of several columns takes far more memory
    key *= top + 1
    key += top
    key -= lengths[text]
    key *= len(lengths)
    key += text
    return np.argsort(key, kind="stable")


def cut_batches(groups: IntArray, size: int) -> list[IntArray]:
    """Cut a list into batches of at most `size`, keeping a group in one batch where it fits.

    Args:
        groups: for each item of the list its group; members stand together.
        size: largest batch.

    Returns:
        Positions in the list, batch by batch. Two successive batches hold more than `size`.
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


def pack_missing(
    batches: list[IntArray], missing: BoolArray, size: int, stored: BoolArray | None = None
) -> list[IntArray]:
    """Keep what is missing of each batch; merge what is left of those that are stored in part.

    Batches of which nothing is stored stay as they are, whichever others are done. Where another
    benchmark has filled most of them, what is left would make many small ones.

    Args:
        batches: positions, batch by batch.
        missing: for each position whether it must be scored.
        size: largest batch.
        stored: for each position whether its score is stored; None where all that is not missing
            is. A pair that is skipped is neither.
    """
    stored = ~missing if stored is None else stored
    packed: list[list[IntArray]] = []
    rests: list[IntArray] = []
    for batch in batches:
        rest = batch[missing[batch]]
        if not rest.size:
            continue
        if not stored[batch].any():
            packed.append([rest])
        elif rests and sum(map(len, rests)) + rest.size <= size:
            rests.append(rest)
        else:
            rests = [rest]
            packed.append(rests)
    return [np.concatenate(parts) for parts in packed]


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
    with report_phase(context.progress, "looking up scores"):
        rows = [request.find_rows() for request in requests]
    if context.cache_use != "only" and not isinstance(context.shard, ShardSurvey):
        for request, known in zip(requests, rows, strict=True):
            request.expect_images(known < 0)  # they start while captions are tokenized
    pending = [
        item
        for request, known in zip(requests, rows, strict=True)
        if (item := _find_pending(request, known < 0)) is not None
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
    """Find each pair's row after scoring; store refusals, and count the new rows of a shard."""
    rows = request.find_rows()
    store_refusals(request, tried, rows)
    if request.context.shard is not None:
        request.context.shard.scored[request.label] += int(((rows >= 0) & (known < 0)).sum())
    return rows


def score_values(request: ScoreRequest) -> FloatArray:
    """Score what is missing of a request; return the score of each pair, NaN where it has none."""
    (rows,) = score_missing(request)
    return request.table.values(rows)


def _find_pending(request: ScoreRequest, missing: BoolArray) -> _PendingRequest | None:
    """Find what is missing of a request and can be scored; None when there is nothing."""
    context, pairs = request.context, request.pairs
    if not missing.any():
        return None
    stored = ~missing
    lengths: IntArray = np.zeros(1, dtype=np.int64)
    readable = np.ones(len(request.text_ids), dtype=np.bool_)
    if request.text_ids is not NO_ID:
        with report_phase(context.progress, "counting tokens"):
            lengths = count_tokens(context, request.texts)
        for j, skip in find_unreadable_captions(context, request.texts, lengths).items():
            context.skips.texts[request.score, request.text_ids[j]] = skip
            readable[j] = False
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
    order = sort_pairs(pairs, lengths)
    order = order[readable[pairs[order, 1]]]
    batches = _cut_request(request, order)
    if context.shard is not None:
        batches = _take_share(request, batches, missing)
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


def _cut_request(request: ScoreRequest, order: IntArray) -> list[IntArray]:
    """Cut batches by the initial size, without what earlier requests of the run have planned.

    What is stored does not matter, so that all shards cut the same batches, and also a run that
    goes on where another ended.
    """
    size = request.context.initial_batch_size
    batches = [order[batch] for batch in cut_batches(_group_pairs(request, order), size)]
    earlier = (request.context.requests or {}).get(request.table.folder)
    if not earlier:
        return batches
    planned = [PairIds.take(other.image_ids, other.text_ids, other.pairs) for other in earlier]
    known = PairIndex.of(PairIds.concatenate(planned))
    ids = pack_ids(request.image_ids), pack_ids(request.text_ids)
    new = known.find(*ids, request.pairs) < 0
    return pack_missing(batches, new, size)


def _remember(requests: Sequence[ScoreRequest]) -> None:
    """Remember the requests of a run, whose pairs later requests do not plan again."""
    for request in requests:
        known = request.context.requests
        if known is not None:
            known.setdefault(request.table.folder, []).append(request)


def _take_share(request: ScoreRequest, cut: list[IntArray], missing: BoolArray) -> list[IntArray]:
    """Return the batches of the shard, and record how many scores are left to others."""
    shard = request.context.shard
    if shard is None:
        return cut
    images = request.pairs[[batch[0] for batch in cut], 0].tolist() if request.encoded else ()
    batches = shard.take(cut, images)
    if isinstance(shard, ShardSurvey):
        counts = [int(missing[batch].sum()) for batch in cut]
        newest = request.table.shard_count
        shard.lacking.append(LackingRequest(request.label, counts, images, newest))
    left = missing.copy()
    for batch in batches:
        left[batch] = False
    if left.any():
        left[list(find_refusals(request, left))] = False
    waiting = sum(int(left[batch].sum()) for batch in cut)
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
