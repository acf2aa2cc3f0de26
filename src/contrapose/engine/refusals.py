"""Refusals in the store: pairs that a model gives no score, and images that cannot be opened.

A run that may ask the model asks again, since a server may have been mended. One that only measures
what others have scored, as the merging of shards does, reads the refusals: such a pair is skipped
for the reason that the model gave, and is not missing. Of images it opens those alone that another
process could not open, and skips them where that is still so. A shard does not wait for the scores
of either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from contrapose.engine.context import NO_ID, ScoreRequest
from contrapose.engine.store import AnswerTable
from contrapose.metrics import BoolArray, IntArray
from contrapose.scores import Skip, is_refusal

REFUSED = ":refused"
"""Suffix of the name of a table of refusals, behind that of the scores."""

UNREADABLE = "unreadable images"
"""Name of the table of images that could not be opened, in place of a score."""


def store_refusals(request: ScoreRequest, tried: IntArray, rows: IntArray) -> None:
    """Store which pairs that were tried the model refused, which images cannot be opened, and why.

    Args:
        request: the request.
        tried: positions of the pairs.
        rows: for each pair of the request its row in the table of scores; −1 where it has none.

    Raises:
        InputError: the storage cannot be written.
    """
    refused: dict[tuple[int, int], Skip] = {}
    unreadable: dict[tuple[int, int], Skip] = {}
    skips = request.context.skips
    for p in tried[rows[tried] < 0].tolist():
        i, j = request.pairs[p].tolist()
        skip = skips.why(request.score, request.image_ids[i], request.text_ids[j])
        if skip is not None and is_refusal(skip):
            refused[i, j] = skip
        elif request.image_ids[i] in skips.images:
            unreadable[i, 0] = skips.images[request.image_ids[i]]
    if refused:
        _add_skips(_find_table(request), request.image_ids, request.text_ids, refused)
    if unreadable:
        _add_skips(_find_unreadable_table(request), request.image_ids, NO_ID, unreadable)


def _add_skips(
    table: AnswerTable,
    image_ids: Sequence[str],
    text_ids: Sequence[str],
    skips: Mapping[tuple[int, int], Skip],
) -> None:
    """Add the skips of pairs that the table does not hold."""
    pairs = np.array(list(skips), dtype=np.int64)
    new = table.find(image_ids, text_ids, pairs) < 0
    kept = [skip for skip, is_new in zip(skips.values(), new.tolist(), strict=True) if is_new]
    table.add(
        [image_ids[i] for i in pairs[new, 0].tolist()],
        [text_ids[j] for j in pairs[new, 1].tolist()],
        {
            "reason": np.array([skip.reason for skip in kept], dtype=object),
            "detail": np.array([skip.detail for skip in kept], dtype=object),
        },
    )


def find_refusals(request: ScoreRequest, missing: BoolArray) -> dict[int, Skip]:
    """Find the refusals of pairs without a score: the reason by the pair's position."""
    table = _find_table(request)
    if table.is_empty:
        return {}
    positions = np.flatnonzero(missing)
    rows = table.find(request.image_ids, request.text_ids, request.pairs[positions])
    positions, rows = positions[rows >= 0], rows[rows >= 0]
    columns = [table.values(rows, name).tolist() for name in ("reason", "detail")]
    return {
        p: Skip(str(reason), str(detail))
        for p, reason, detail in zip(positions.tolist(), *columns, strict=True)
    }


def find_unreadable(request: ScoreRequest, missing: BoolArray) -> IntArray:
    """Find the pairs without a score whose image could not be opened: their positions."""
    table = _find_unreadable_table(request)
    positions = np.flatnonzero(missing)
    if table.is_empty:
        return positions[:0]
    pairs = request.pairs[positions]
    pairs[:, 1] = 0
    return positions[table.find(request.image_ids, NO_ID, pairs) >= 0]


def skip_refused(request: ScoreRequest, missing: BoolArray) -> None:
    """Record pairs without a score that the model refused in an earlier run as skipped."""
    for p, skip in find_refusals(request, missing).items():
        i, j = request.pairs[p].tolist()
        image = "" if request.make_image is not None else request.image_ids[i]
        request.context.skips.refuse(request.score, image, request.text_ids[j], skip)


def skip_unreadable(request: ScoreRequest, missing: BoolArray) -> None:
    """Record images of pairs without a score that could not and cannot be opened as skipped."""
    context = request.context
    for i in np.unique(request.pairs[find_unreadable(request, missing), 0]).tolist():
        name = request.image_ids[i]
        prepared = request.prepare(i) if name not in context.skips.images else None
        if isinstance(prepared, Skip):
            context.skips.images[name] = prepared


def _find_table(request: ScoreRequest) -> AnswerTable:
    table = request.table
    return request.context.store.table(table.model, table.score + REFUSED)


def _find_unreadable_table(request: ScoreRequest) -> AnswerTable:
    return request.context.store.table(request.table.model, UNREADABLE)
