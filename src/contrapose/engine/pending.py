"""Missing scores of requests: which batches are cut, and which pairs have no score yet.

Batches are cut from all that the plan holds, not from what happens to be missing: a run that was
killed and resumed scores the same batches, so that its numbers are the same to the last bit. So do
the shards of a run, of which each takes a share of the batches. The longest captions come first:
should memory run out, it does so at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from contrapose.engine.batch_cuts import cut_batches, pack_missing, sort_pairs
from contrapose.engine.context import NO_ID, ScoreRequest
from contrapose.engine.pace import PaceBook, PaceClock, report_phase
from contrapose.engine.pair_index import PairIds, PairIndex, pack_ids
from contrapose.engine.part_origins import DamagedVectorsError
from contrapose.engine.part_writer import PartWriter
from contrapose.engine.plan import count_tokens, find_unreadable_captions
from contrapose.engine.refusals import (
    find_refusals,
    find_unreadable,
    skip_refused,
    skip_unreadable,
)
from contrapose.engine.shards import UNKNOWN_NOTE, LackingRequest, ShardSurvey
from contrapose.errors import InputError, option
from contrapose.files import digest
from contrapose.metrics import BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class PendingRequest:
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


MISSING, UNKNOWN = -1, -2
"""Rows of pairs that the table does not hold, and of those that were not looked up."""

MAX_TALLY = 1 << 20
"""Pairs of a request up to which a shard looks up which scores of other shards are stored."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestCut:
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


def cut_request(request: ScoreRequest) -> RequestCut:
    """Order and cut the pairs whose captions can be scored; record the others as skipped.

    What earlier requests of the run have planned is left out of the batches. What is stored does
    not matter, so that all shards cut the same batches, and also a run that goes on where another
    ended.
    """
    lengths, readable = _count_lengths(request)
    order = sort_pairs(request.pairs, lengths)
    order = order[readable[request.pairs[order, 1]]]
    size = request.context.initial_batch_size
    batches = [order[batch] for batch in cut_batches(group_pairs(request, order), size)]
    earlier = (request.context.requests or {}).get(request.table.folder)
    if earlier:
        planned = [PairIds.take(other.image_ids, other.text_ids, other.pairs) for other in earlier]
        known = PairIndex.of(PairIds.concatenate(planned))
        ids = pack_ids(request.image_ids), pack_ids(request.text_ids)
        batches = pack_missing(batches, known.find(*ids, request.pairs) < 0, size)
    return RequestCut(request, order, batches)


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


def find_share(cut: RequestCut) -> IntArray:
    """Find the rows of a shard's pairs, and those of others where they are used or few.

    Pairs of other shards are not scored again here, so that what is stored of them counts.
    """
    request, shard = cut.request, cut.request.context.shard
    rows = np.full(len(request.pairs), UNKNOWN, dtype=np.int64)
    batches = cut.batches if shard is None else shard.take(cut.batches, cut.images)
    if batches:
        share = np.concatenate(batches)
        rows[share] = find_sound(request, share)
    others = np.flatnonzero(rows == UNKNOWN)
    if shard is None or not shard.share_only or len(request.pairs) <= MAX_TALLY:
        rows[others] = request.find_stored(others)
    else:
        shard.notes[UNKNOWN_NOTE] = None
    return rows


def find_sound(request: ScoreRequest, positions: IntArray | None = None) -> IntArray:
    """Find the rows of pairs as `find_rows` does, whose vectors, if any, are as they were written.

    Elsewhere damage is found when vectors are used.
    """
    while True:
        rows = request.find_rows(positions)
        with suppress(DamagedVectorsError):
            request.table.read_vectors(rows)
            return rows


def find_pending(
    request: ScoreRequest, missing: BoolArray, cut: RequestCut | None
) -> PendingRequest | None:
    """Find what is missing of a request and can be scored; None when there is nothing."""
    context, pairs = request.context, request.pairs
    if not missing.any():
        return None
    stored = ~missing
    cut = cut or cut_request(request)
    if isinstance(context.shard, ShardSurvey) or context.cache_use == "only":
        skip_refused(request, missing)
        skip_unreadable(request, missing)
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
    return PendingRequest(request, order, missing, stored, writer, batches)


def _take_share(cut: RequestCut, missing: BoolArray) -> list[IntArray]:
    """Return the batches of the shard, and record how many scores are left to others."""
    request, shard = cut.request, cut.request.context.shard
    if shard is None:
        return cut.batches
    batches = shard.take(cut.batches, cut.images)
    if isinstance(shard, ShardSurvey):
        counts = [int(missing[batch].sum()) for batch in cut.batches]
        shard.lacking.append(LackingRequest(request.label, counts, cut.images))
    left = missing.copy()
    for batch in batches:
        left[batch] = False
    if left.any():
        left[list(find_refusals(request, left))] = False
        left[find_unreadable(request, left)] = False
    waiting = sum(int(left[batch].sum()) for batch in cut.batches)
    key = request.table.model, request.table.score, request.label, digest(request.pairs.tobytes())
    if waiting:
        shard.waiting[key] = waiting
    return batches


def group_pairs(request: ScoreRequest, order: IntArray) -> IntArray:
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
