"""Scores of composed queries: an image and a text, fused without training, rank a gallery.

The score's name tells the fusion: `itc:sum`, or with another λ `itc:sum:scale=0.5`. Galleries are
ranked block by block; the matrix of all queries and images is never built.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from contrapose.arrays import find_distinct, normalize_rows
from contrapose.data import ComposedQuery, ComposedSet
from contrapose.engine.context import ScoringContext
from contrapose.engine.corpora import STYLES, SUBJECTS
from contrapose.engine.embeddings import embed_distinct
from contrapose.engine.plan import compute_caption_ids, distinct_images, truncation_notes
from contrapose.engine.score_names import parse_fusion_score
from contrapose.engine.score_types import has_pooling, require_score
from contrapose.errors import InputError
from contrapose.metrics.fusion import BasicStatistics, basic_statistics, fuse
from contrapose.scores import UNKNOWN_SKIP, Skip
from contrapose.scores.rankings import (
    ComposedRankings,
    empty_rankings,
    group_queries,
    rank_block,
)


def score_composed(
    context: ScoringContext, score: str, data: ComposedSet
) -> tuple[ComposedRankings, dict[str, Skip]]:
    """Rank the galleries of composed queries by a fusion of image and text vectors.

    Returns:
        The rankings of the queries that can be asked, without the images that cannot be read, and
        the skipped queries with reasons.

    Raises:
        InputError: the score names no fusion, or the model gives an image several vectors.
    """
    require_score(context.model, score)
    fusion, scale = parse_fusion_score(score)
    if has_pooling(context.model):
        raise InputError(
            f"composed queries need one vector an image, and {context.model.name} gives several."
        )
    distinct = distinct_images(data.images, context.content_id_reader())
    context.skips.images.update(distinct.unreadable)
    texts = [text for query in data.queries for text in query.texts]
    captions, text_index = find_distinct([*texts, *_list_corpora(fusion)])
    images, words = embed_distinct(context, distinct.refs, distinct.ids, captions)
    images, words = images[distinct.index], words[text_index]
    missing = {
        i: context.skips.images.get(distinct.ids[distinct.index[i]], UNKNOWN_SKIP)
        for i in np.flatnonzero(_is_missing(images)).tolist()
    }
    text_ids = compute_caption_ids(context, captions)
    unread = {
        i: context.skips.texts.get(("itc", text_ids[text_index[i]]), UNKNOWN_SKIP)
        for i in np.flatnonzero(_is_missing(words[: len(texts)])).tolist()
    }
    kept, rows, skipped = _without_missing(data, missing, unread)
    notes = _missing_notes(data, kept, len(missing))
    if not kept.queries:
        return ComposedRankings(kept, *empty_rankings(kept), notes), skipped
    starts = images[[query.image for query in kept.queries]]
    edits = _average_texts(words, starts, rows)
    listed = sorted({i for gallery in kept.galleries for i in gallery})
    statistics = None
    if fusion == "basic":
        statistics = _statistics(images[listed], words[len(texts) :], len(SUBJECTS))
    gallery, subset = empty_rankings(kept)
    vectors, current = images[:0], None
    for positions, columns in group_queries(kept):
        if current is not columns:
            vectors, current = images[columns], columns
        scores = fuse(
            fusion,
            vectors,
            image=starts[positions],
            text=edits[positions],
            scale=scale,
            statistics=statistics,
        )
        rank_block(kept, positions, columns, scores, gallery, subset)
    if any(len(query.texts) > 1 for query in kept.queries):
        notes = (*notes, "the vectors of a query's texts are averaged")
    notes = (*notes, *truncation_notes(context, captions))
    return ComposedRankings(kept, gallery, subset, notes), skipped


def embed_composed(context: ScoringContext, score: str, data: ComposedSet) -> None:
    """Embed the images and texts of composed queries, and return none of the vectors."""
    fusion, _ = parse_fusion_score(score)
    distinct = distinct_images(data.images, context.content_id_reader())
    context.skips.images.update(distinct.unreadable)
    texts = [text for query in data.queries for text in query.texts]
    captions, _ = find_distinct([*texts, *_list_corpora(fusion)])
    embed_distinct(context, distinct.refs, distinct.ids, captions)


def _list_corpora(fusion: str) -> list[str]:
    """Texts that a fusion needs beside those of the queries."""
    return [*SUBJECTS, *STYLES] if fusion == "basic" else []


def _average_texts(
    words: NDArray[np.float32], starts: NDArray[np.float32], rows: list[range]
) -> NDArray[np.float32]:
    """Unit vectors of the queries' texts, averaged over wordings; the image's without a text."""
    vectors = starts.copy()
    for q, some in enumerate(rows):
        if some:
            vectors[q] = words[some.start : some.stop].mean(axis=0)
    return normalize_rows(vectors)


def _statistics(
    gallery: NDArray[np.float32], words: NDArray[np.float32], subjects: int
) -> BasicStatistics:
    """Statistics of BASIC: means of all gallery images and of the texts of this module."""
    lists = words[:subjects], words[subjects:]
    positive, negative = (texts[~_is_missing(texts)] for texts in lists)
    return basic_statistics(gallery, positive, negative)


def _without_missing(
    data: ComposedSet, missing: dict[int, Skip], unread: dict[int, Skip]
) -> tuple[ComposedSet, list[range], dict[str, Skip]]:
    """Drop missing images from galleries, and queries that miss an image, a text or every target.

    Returns:
        What is left, the rows of each query's texts, and the skipped queries.
    """
    skipped: dict[str, Skip] = {}
    queries, rows = [], []
    start = 0
    for query in data.queries:
        some = range(start, start + len(query.texts))
        start = some.stop
        why = missing.get(query.image) or next((unread[i] for i in some if i in unread), None)
        relevant = tuple(i for i in query.relevant if i not in missing)
        if query.relevant and not relevant:
            why = why or missing[query.relevant[0]]
        if why is not None:
            skipped[query.id] = why
            continue
        subset = tuple(i for i in query.subset if i not in missing)
        queries.append(replace(query, relevant=relevant, subset=subset))
        rows.append(some)
    galleries = data.galleries
    if missing:
        galleries = tuple(tuple(i for i in gallery if i not in missing) for gallery in galleries)
    return replace(data, queries=tuple(queries), galleries=galleries), rows, skipped


def _missing_notes(data: ComposedSet, kept: ComposedSet, missing: int) -> tuple[str, ...]:
    if not missing:
        return ()
    fewer = sum(
        len(after.relevant) < len(before.relevant)
        for before, after in zip(_same_queries(data, kept), kept.queries, strict=True)
    )
    partly = f", which takes a right image from {fewer:,} queries" if fewer else ""
    return (
        f"{missing:,} of {len(data.images):,} images cannot be read and are in no gallery{partly}",
    )


def _same_queries(data: ComposedSet, kept: ComposedSet) -> list[ComposedQuery]:
    ids = {query.id for query in kept.queries}
    return [query for query in data.queries if query.id in ids]


def _is_missing(vectors: NDArray[np.float32]) -> NDArray[np.bool_]:
    if not vectors.shape[1]:
        return np.ones(len(vectors), dtype=np.bool_)
    return np.asarray(np.isnan(vectors).any(axis=1))
