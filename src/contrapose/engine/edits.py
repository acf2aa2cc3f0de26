"""Scores of edit queries: delta vectors, their λ, and the baselines of the SIMAT paper.

Every score is a query vector start + λ·delta that ranks the database: `itc:delta` starts from the
image and adds the difference of two words, `itc:text` starts from the target caption and adds
nothing. `itc:text-delta` ranks the captions instead of the images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from contrapose.arrays import find_distinct, normalize_rows
from contrapose.data import DEV, EditSet, ImageRef
from contrapose.engine.context import ScoringContext
from contrapose.engine.embeddings import embed_distinct
from contrapose.engine.plan import compute_caption_ids, distinct_images, truncation_notes
from contrapose.engine.score_names import (
    EDIT_SCORES,
    SCALED_EDITS,
    EditScore,
    parse_edit_score,
)
from contrapose.engine.score_types import has_pooling, require_score
from contrapose.errors import InputError
from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.metrics.delta_scales import SCALES, EditVectors, best_scale, sweep_scales
from contrapose.scores import UNKNOWN_SKIP, ScoreMatrix, Skip

BY_WORDS = ("itc:delta", "itc:caption", "itc:text-delta")
"""Scores that need the vectors of the two words."""

BY_CAPTIONS = ("itc:sentence", "itc:caption", "itc:text", "itc:text-delta")
"""Scores that need the vectors of captions."""

CAPTIONS = "itc:text-delta"
"""The score that ranks captions."""


@dataclass(frozen=True, slots=True, eq=False)
class EditScores:
    """Scores of edit queries, and the λ that they were computed with.

    Attributes:
        matrix: queries × database.
        data: the queries and the database; of `itc:text-delta` the database holds captions.
        scale: λ; None where the score has none.
        curve: for λ chosen on dev: each λ, and the score of the dev queries.
    """

    matrix: ScoreMatrix
    data: EditSet
    scale: float | None = None
    curve: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedEdits:
    """Unit vectors of edit queries; missing ones are NaN.

    Attributes:
        images: (N, d) of the database.
        words: (2q, d) of each query's source and target word.
        captions: (c, d) of the captions.
        missing_images: reasons by position.
        missing_words: reasons by position.
        missing_captions: reasons by position.
        notes: about the texts.
    """

    images: FloatArray
    words: FloatArray
    captions: FloatArray
    missing_images: dict[int, Skip] = field(default_factory=dict)
    missing_words: dict[int, Skip] = field(default_factory=dict)
    missing_captions: dict[int, Skip] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def score_edits(context: ScoringContext, score: str, edits: EditSet) -> EditScores:
    """Score every edit query with every entry of its database.

    Args:
        context: the model, the store and the options.
        score: a key of `EDIT_SCORES`, with or without λ; `itc` is `itc:delta`.
        edits: the queries and the database.

    Raises:
        InputError: the score is not one of vectors, the model gives an image several vectors, or
            there are no dev queries to choose λ on.
    """
    require_score(context.model, score)
    asked = parse_edit_score(score)
    if has_pooling(context.model):
        raise InputError(
            f"edit queries add one vector an image, and {context.model.name} gives several; ask "
            "another model."
        )
    embedded = embed_edits(context, asked.base, edits)
    data = edits if asked.base != CAPTIONS else caption_queries(edits)
    columns = embedded.missing_captions if asked.base == CAPTIONS else embedded.missing_images
    rows = _missing_rows(asked.base, edits, embedded)
    shape = len(edits.queries), len(data.images)
    if len(rows) == len(edits.queries):
        empty = np.full(shape, np.nan, dtype=np.float32)
        return EditScores(ScoreMatrix(empty, skipped_rows=rows, skipped_columns=columns), data)
    if asked.base == "itc:random":
        scores = np.random.default_rng(0).random(shape, dtype=np.float32)
        scores[:, list(columns)] = np.nan
        return EditScores(ScoreMatrix(scores, skipped_rows=rows, skipped_columns=columns), data)
    vectors = query_vectors(asked.base, edits, embedded)
    scale = edits.scale if asked.scale is None else asked.scale
    curve: tuple[tuple[float, float], ...] = ()
    if asked.dev:
        scale, curve = _choose_scale(vectors, data, rows)
    queries = normalize_rows(vectors.start + scale * vectors.delta)
    matrix = ScoreMatrix(
        np.asarray(queries @ vectors.gallery.T),
        skipped_rows=rows,
        skipped_columns=columns,
        notes=(*_describe(asked, scale, curve), *embedded.notes),
    )
    return EditScores(matrix, data, scale if asked.base in SCALED_EDITS else None, curve)


def caption_queries(edits: EditSet) -> EditSet:
    """Edit queries whose database is the captions: each must lead to its target caption."""
    return replace(
        edits,
        images=tuple(ImageRef(text, Path("captions")) for text in edits.captions),  # never opened
        caption_of=tuple(range(len(edits.captions))),
        queries=tuple(replace(query, image=query.caption) for query in edits.queries),
        oracle=None,
        judge="",
    )


def edit_vectors(context: ScoringContext, edits: EditSet) -> EditVectors:
    """Vectors of `itc:delta`, for a sweep of λ.

    Raises:
        InputError: an image or a word has no vector.
    """
    embedded = embed_edits(context, "itc:delta", edits)
    for skip in _missing_rows("itc:delta", edits, embedded).values():
        raise InputError(f"the edit queries cannot be asked: {skip.detail}.")
    return query_vectors("itc:delta", edits, embedded)


def embed_edits(context: ScoringContext, score: str, edits: EditSet) -> EmbeddedEdits:
    """Embed the images, words and captions that an edit score needs."""
    base = parse_edit_score(score).base
    refs = () if base == CAPTIONS else edits.images
    distinct = distinct_images(refs, context.content_id_reader())
    context.skips.images.update(distinct.unreadable)
    words = [word for query in edits.queries for word in (query.source, query.target)]
    words = words if base in BY_WORDS else []
    captions = list(edits.captions) if base in BY_CAPTIONS else []
    texts, index = find_distinct([*words, *captions])
    images, vectors = embed_distinct(context, distinct.refs, distinct.ids, texts)
    images, vectors = images[distinct.index], vectors[index]
    text_ids = compute_caption_ids(context, texts)

    def missing_texts(start: int, stop: int) -> dict[int, Skip]:
        return {
            i: context.skips.texts.get(("itc", text_ids[index[start + i]]), UNKNOWN_SKIP)
            for i in np.flatnonzero(_is_missing(vectors[start:stop])).tolist()
        }

    return EmbeddedEdits(
        images=images,
        words=vectors[: len(words)],
        captions=vectors[len(words) :],
        missing_images={
            i: context.skips.images.get(distinct.ids[distinct.index[i]], UNKNOWN_SKIP)
            for i in np.flatnonzero(_is_missing(images)).tolist()
        },
        missing_words=missing_texts(0, len(words)),
        missing_captions=missing_texts(len(words), len(index)),
        notes=truncation_notes(context, texts),
    )


def _missing_rows(base: str, edits: EditSet, embedded: EmbeddedEdits) -> dict[int, Skip]:
    """Queries that lack the vector of their image, a word or a caption, with the reason."""
    rows: dict[int, Skip] = {}
    for q, query in enumerate(edits.queries):
        reasons = [embedded.missing_words.get(i) for i in (2 * q, 2 * q + 1)]
        if base in ("itc:sentence", CAPTIONS):
            reasons.append(embedded.missing_captions.get(query.caption))
        if base in ("itc:sentence", "itc:text", CAPTIONS):
            reasons.append(embedded.missing_captions.get(query.target_caption))
        if base != CAPTIONS:
            reasons.append(embedded.missing_images.get(query.image))
        for why in reasons:
            if why is not None:
                rows[q] = why
    return rows


def query_vectors(base: str, edits: EditSet, embedded: EmbeddedEdits) -> EditVectors:
    """Vectors that a score's queries start from, its deltas and its database.

    Args:
        base: a key of `EDIT_SCORES` without λ.
        edits: the queries and the database.
        embedded: their vectors.
    """
    queries, images, captions = edits.queries, embedded.images, embedded.captions
    start_image, source, target = (
        np.array(values, dtype=np.int64)
        for values in zip(
            *((query.image, query.caption, query.target_caption) for query in queries), strict=True
        )
    )
    excluded = start_image
    if base == CAPTIONS:
        start, gallery, excluded = captions[source], captions, source
    elif base == "itc:caption":
        start, gallery = captions[_nearest(images, captions)[start_image]], images
    else:
        start, gallery = captions[target] if base == "itc:text" else images[start_image], images
    delta: FloatArray = np.zeros_like(start)
    if base in BY_WORDS:
        pairs = embedded.words.reshape(len(queries), 2, -1)
        delta = pairs[:, 1] - pairs[:, 0]
    elif base == "itc:sentence":
        delta = _sentence_deltas(edits, captions)
    return EditVectors(start, delta, gallery, excluded, target)


def _nearest(images: FloatArray, captions: FloatArray) -> IntArray:
    """(N,) caption nearest to each image; those without a vector are never nearest."""
    known = ~_is_missing(captions)
    cosines = images @ np.where(known[:, None], captions, 0).T
    cosines[:, ~known] = -np.inf
    return np.asarray(cosines.argmax(axis=1))


def _sentence_deltas(edits: EditSet, captions: FloatArray) -> FloatArray:
    """(q, d) mean difference of all caption pairs that differ by the query's words.

    The pairs are those of the queries themselves, each pair once. A caption without a vector leaves
    its pair out.
    """
    groups: dict[tuple[str, str], dict[tuple[int, int], None]] = {}
    for query in edits.queries:
        pair = query.caption, query.target_caption
        if not _is_missing(captions[list(pair)]).any():
            groups.setdefault((query.source, query.target), {})[pair] = None
    empty = np.full(captions.shape[1], np.nan)
    means = {
        words: np.mean([captions[b] - captions[a] for a, b in pairs], axis=0, dtype=np.float64)
        for words, pairs in groups.items()
    }
    deltas = [means.get((query.source, query.target), empty) for query in edits.queries]
    return np.asarray(deltas, dtype=captions.dtype)


def _choose_scale(
    vectors: EditVectors, data: EditSet, rows: dict[int, Skip]
) -> tuple[float, tuple[tuple[float, float], ...]]:
    """λ of the highest score of the dev queries at n = 1, and the score at each λ.

    Raises:
        InputError: there are no dev queries.
    """
    dev = [
        q
        for q, query in enumerate(data.queries)
        if query.tags.get("split") == DEV and q not in rows
    ]
    if not dev:
        raise InputError("λ is chosen on dev queries, and there are none: name λ as a number.")
    weights = np.array([data.queries[q].weight for q in dev])
    scores = sweep_scales(vectors.take(np.array(dev)), data.fits(), weights)
    curve = tuple(zip(SCALES, map(float, scores), strict=True))
    return best_scale(SCALES, scores), curve


def _describe(
    asked: EditScore, scale: float, curve: Sequence[tuple[float, float]]
) -> tuple[str, ...]:
    note = f"{asked.base} ranks by {EDIT_SCORES[asked.base].removeprefix('edit queries: ')}"
    if asked.base not in SCALED_EDITS:
        return (note,)
    if not curve:
        return (f"{note}, λ = {scale:g}",)
    values = dict(curve)
    return (
        f"{note}, λ = {scale:g}: of λ from 0 to {SCALES[-1]:g} in steps of {SCALES[1]:g} it has "
        f"the highest simat_n1 of the dev queries, {values[scale]:.1%} (λ = 0: {values[0.0]:.1%}, "
        f"1: {values[1.0]:.1%}, {SCALES[-1]:g}: {values[SCALES[-1]]:.1%})",
    )


def _is_missing(vectors: FloatArray) -> BoolArray:
    """Return which vectors are missing (NaN)."""
    if not vectors.shape[1]:
        return np.ones(len(vectors), dtype=np.bool_)
    return np.asarray(np.isnan(vectors).any(axis=1))
