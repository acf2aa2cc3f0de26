"""Refusals of a model in the store: pairs that it was asked for and gives no score.

A run that may ask the model asks again, since a server may have been mended. One that only measures
what others have scored, as the merging of shards does, reads the refusals: such a pair is skipped
for the reason that the model gave, and is not missing.
"""

from __future__ import annotations

import numpy as np

from contrapose.engine.context import ScoreRequest
from contrapose.engine.store import AnswerTable
from contrapose.metrics import BoolArray, IntArray
from contrapose.scores import Skip, is_refusal

REFUSED = ":refused"
"""Suffix of the name of a table of refusals, behind that of the scores."""


def store_refusals(request: ScoreRequest, tried: IntArray, rows: IntArray) -> None:
    """Store which of the pairs that were tried the model refused, and why; each once.

    Args:
        request: the request.
        tried: positions of the pairs.
        rows: for each pair of the request its row in the table of scores; −1 where it has none.

    Raises:
        InputError: the storage cannot be written.
    """
    skips: dict[int, Skip] = {}
    for p in tried[rows[tried] < 0].tolist():
        i, j = request.pairs[p].tolist()
        skip = request.context.skips.why(request.score, request.image_ids[i], request.text_ids[j])
        if skip is not None and is_refusal(skip):
            skips[p] = skip
    if not skips:
        return
    table = _find_table(request)
    pairs = request.pairs[list(skips)]
    new = table.find(request.image_ids, request.text_ids, pairs) < 0
    kept = [skip for skip, is_new in zip(skips.values(), new.tolist(), strict=True) if is_new]
    table.add(
        [request.image_ids[i] for i in pairs[new, 0].tolist()],
        [request.text_ids[j] for j in pairs[new, 1].tolist()],
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


def skip_refused(request: ScoreRequest, missing: BoolArray) -> None:
    """Record pairs without a score that the model refused in an earlier run as skipped."""
    for p, skip in find_refusals(request, missing).items():
        i, j = request.pairs[p].tolist()
        image = "" if request.make_image is not None else request.image_ids[i]
        request.context.skips.refuse(request.score, image, request.text_ids[j], skip)


def _find_table(request: ScoreRequest) -> AnswerTable:
    table = request.table
    return request.context.store.table(table.model, table.score + REFUSED)
