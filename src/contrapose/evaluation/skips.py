"""Skipped examples: left out of every metric, counted, and reported."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from contrapose.data import ComposedSet, EditSet, Gallery
from contrapose.data.example_columns import ExampleColumns
from contrapose.errors import InputError, option
from contrapose.evaluation.selection import PartData
from contrapose.results.schema import SkipReport
from contrapose.scores import ScoreMatrix, Skip, count_reasons

SkipReasons = Mapping[str, Skip]
"""Skipped examples (queries of a gallery), and the reason of each."""

T = TypeVar("T")

UNREACHABLE_SCORE = -2.0
"""Score of an unreadable image: below every cosine, so that it is never retrieved."""


class NothingLeftError(InputError):
    """Error: every example was skipped."""

    def __init__(self, name: str, skipped: SkipReasons):
        self.skipped = skipped
        first = next(iter(skipped.values()))
        super().__init__(f"not one example of {name} can be asked; the first: {first.detail}.")


def summarize_skips(skipped: SkipReasons) -> SkipReport | None:
    """Summarize skipped examples for the results; None when nothing was skipped."""
    if not skipped:
        return None
    unit, first = next(iter(skipped.items()))
    return SkipReport(
        examples=len(skipped),
        reasons=dict(count_reasons(skipped.values())),
        first=f"{unit}: {first.detail}",
    )


def skip_note(skipped: SkipReasons, left: int) -> tuple[str, ...]:
    """Note on the skipped examples, for `left` examples that were scored."""
    if not skipped:
        return ()
    reasons = ", ".join(
        f"{count:,} because {reason}" for reason, count in count_reasons(skipped.values()).items()
    )
    were = "were" if len(skipped) > 1 else "was"
    return (f"{len(skipped):,} of {len(skipped) + left:,} examples {were} skipped: {reasons}",)


def require_no_skips(skipped: SkipReasons, name: str) -> None:
    """Refuse skipped examples (strict mode).

    Raises:
        InputError: something was skipped; names the first, and how many there are.
    """
    if skipped:
        unit, first = next(iter(skipped.items()))
        are = f"{len(skipped):,} examples" if len(skipped) > 1 else "1 example"
        raise InputError(
            f"{are} of {name} cannot be asked, the first is {unit}: {first.detail}; put it right, "
            f"or leave out {option('strict')} to skip them."
        )


def without_skipped(
    gallery: Gallery, grid: ScoreMatrix
) -> tuple[Gallery, ScoreMatrix, SkipReasons]:
    """Drop the skipped images and texts of a gallery, and queries without a partner left.

    A query whose only partners are gone cannot be answered, and is left out too. Of classes every
    name that can be read stays: fewer would be an easier question.
    """
    if not grid.skipped_rows and not grid.skipped_columns:
        return gallery, grid, {}
    rows, columns = _add_orphans(gallery, grid.skipped_rows, grid.skipped_columns)
    skipped = {f"image {gallery.images[i].key}": why for i, why in sorted(rows.items())}
    if not gallery.templates:
        adversarial = {j for _, j in gallery.distractors}  # candidates, and no queries
        texts = {j: why for j, why in sorted(columns.items()) if j not in adversarial}
        skipped |= {gallery.text_name(j): why for j, why in texts.items()}
    kept = _cut_gallery(gallery, rows, columns)
    if not kept.pairs:
        raise NothingLeftError(gallery.id, skipped)
    images = [i for i in range(len(gallery.images)) if i not in rows]
    kept_texts = [j for j in range(len(gallery.texts)) if j not in columns]
    part = np.ix_(images, kept_texts)
    from_text = None if grid.from_text is None else grid.from_text[part]
    return kept, replace(grid, scores=grid.scores[part], from_text=from_text), skipped


def _add_orphans(
    gallery: Gallery, rows: Mapping[int, T], columns: Mapping[int, T]
) -> tuple[dict[int, T], dict[int, T]]:
    """Add to skipped images and texts those whose partners are all skipped; class names stay.

    Adversarial captions go with the image they were made from.
    """
    pairs = [(i, j) for i, j in gallery.pairs if i not in rows and j not in columns]
    kept_images, kept_texts = {i for i, _ in pairs}, {j for _, j in pairs}
    rows, columns = dict(rows), dict(columns)
    for i, j in gallery.pairs:
        why = rows.get(i) or columns.get(j)
        if why is None:
            continue
        if i not in kept_images:
            rows.setdefault(i, why)
        if j not in kept_texts and not gallery.templates:
            columns.setdefault(j, why)
    for i, j in gallery.distractors:
        if i in rows:
            columns.setdefault(j, rows[i])
    return rows, columns


def _cut_gallery(gallery: Gallery, rows: Container[int], columns: Container[int]) -> Gallery:
    """Gallery without some images and texts."""
    images = [i for i in range(len(gallery.images)) if i not in rows]
    texts = [j for j in range(len(gallery.texts)) if j not in columns]
    row_of = {i: new for new, i in enumerate(images)}
    column_of = {j: new for new, j in enumerate(texts)}
    pairs, distractors = (
        tuple((row_of[i], column_of[j]) for i, j in some if i in row_of and j in column_of)
        for some in (gallery.pairs, gallery.distractors)
    )
    return replace(
        gallery,
        images=tuple(gallery.images[i] for i in images),
        texts=tuple(gallery.texts[j] for j in texts),
        pairs=pairs,
        distractors=distractors,
        text_numbers=tuple(gallery.text_numbers[j] if gallery.text_numbers else j for j in texts),
    )


def skipped_candidates(data: Gallery | EditSet, grid: ScoreMatrix) -> tuple[str, ...]:
    """Skipped answers that are no queries: class names, and database images of edit queries."""
    if isinstance(data, EditSet):
        return tuple(f"image {data.images[i].key}" for i in sorted(grid.skipped_columns))
    return tuple(map(data.text_name, sorted(grid.skipped_columns))) if data.templates else ()


def without_units(data: PartData, units: Collection[str]) -> PartData:
    """Data without skipped examples, queries and candidates, by their names in the runs' skips.

    Of a gallery, images and texts are left out as candidates too: all models are asked the same.
    """
    if isinstance(data, ExampleColumns):
        left = [k for k, name in enumerate(data.ids) if name not in units]
        return data if len(left) == len(data) else data.take(np.array(left, dtype=np.int64))
    if isinstance(data, list):
        return [example for example in data if example.id not in units]
    if isinstance(data, ComposedSet):
        return replace(data, queries=tuple(q for q in data.queries if q.id not in units))
    images = {i for i, image in enumerate(data.images) if f"image {image.key}" in units}
    if isinstance(data, Gallery):
        texts = {j for j in range(len(data.texts)) if data.text_name(j) in units}
        rows, columns = _add_orphans(data, dict.fromkeys(images, True), dict.fromkeys(texts, True))
        return _cut_gallery(data, rows, columns)
    kept = [i for i in range(len(data.images)) if i not in images]
    position = {i: new for new, i in enumerate(kept)}
    return replace(
        data,
        images=tuple(data.images[i] for i in kept),
        caption_of=tuple(data.caption_of[i] for i in kept),
        oracle=None if data.oracle is None else data.oracle[kept],
        queries=tuple(
            replace(query, image=position[query.image])
            for query in data.queries
            if query.image in position and query.id not in units
        ),
    )


def count_units(data: PartData) -> dict[str, int]:
    """Number of units of each kind: examples, images and captions of a gallery, or edit queries."""
    if isinstance(data, list | ExampleColumns):
        return {"examples": len(data)}
    if isinstance(data, ComposedSet):
        return {"queries": len(data.queries)}
    if isinstance(data, EditSet):
        return {"queries": len(data.queries), "database images": len(data.images)}
    texts = "class names" if data.templates else "captions"
    return {"images": len(data.images), texts: len(data.texts)}


def without_skipped_queries(
    edits: EditSet, grid: ScoreMatrix
) -> tuple[EditSet, ScoreMatrix, SkipReasons]:
    """Drop the skipped edit queries; skipped images get a score that no query can reach."""
    skipped = {edits.queries[q].id: why for q, why in sorted(grid.skipped_rows.items())}
    if not skipped and not grid.skipped_columns:
        return edits, grid, {}
    kept = [q for q in range(len(edits.queries)) if q not in grid.skipped_rows]
    if not kept:
        raise NothingLeftError("the edit queries", skipped)
    scores = grid.scores[kept].copy()
    scores[:, list(grid.skipped_columns)] = UNREACHABLE_SCORE
    asked = replace(edits, queries=tuple(edits.queries[q] for q in kept))
    return asked, replace(grid, scores=scores), skipped
