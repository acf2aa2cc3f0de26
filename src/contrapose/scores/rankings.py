"""Rankings of composed queries, and the submission files of CIRR and CIRCO that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from contrapose.data import ComposedQuery, ComposedSet
from contrapose.errors import InputError, option
from contrapose.files import Record, StrictProblems, read_json_records
from contrapose.metrics import FloatArray, IntArray
from contrapose.metrics.composed import RankedLists, rank_images

RECALL, RECALL_SUBSET = "recall", "recall_subset"
"""Kinds of a CIRR submission, its field `metric`."""

HEADER = ("version", "metric")
"""Fields of a CIRR submission that are no query."""

EXPORT_MARK = "export.json"
"""File beside exported submissions, which is none itself."""

BLOCK = 1 << 22
"""Scores ranked at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class ComposedRankings:
    """Rankings of composed queries.

    Attributes:
        data: the queries that are ranked, and their galleries.
        gallery: the best images of each query; None where only subsets are ranked.
        subset: the images of each query's subset; None where there are no subsets.
        notes: for the reader of the results.
    """

    data: ComposedSet
    gallery: RankedLists | None
    subset: RankedLists | None = None
    notes: tuple[str, ...] = ()


def list_sizes(data: ComposedSet) -> IntArray:
    """Number of images that each query is ranked among; 0 where the gallery is not known."""
    if not data.listed:
        return np.zeros(len(data.queries), dtype=np.int64)
    members = [set(gallery) for gallery in data.galleries]
    return np.array(
        [
            len(members[query.gallery])
            - (query.image in members[query.gallery] and not data.keep_reference)
            for query in data.queries
        ],
        dtype=np.int64,
    )


def group_queries(data: ComposedSet) -> Iterator[tuple[IntArray, IntArray]]:
    """Positions of the queries of each gallery, in bounded blocks, and of its images."""
    by_gallery: dict[int, list[int]] = {}
    for q, query in enumerate(data.queries):
        by_gallery.setdefault(query.gallery, []).append(q)
    for gallery, queries in by_gallery.items():
        columns = np.array(data.galleries[gallery], dtype=np.int64)
        step = max(1, BLOCK // max(1, len(columns)))
        for start in range(0, len(queries), step):
            yield np.array(queries[start : start + step], dtype=np.int64), columns


def rank_block(
    data: ComposedSet,
    rows: IntArray,
    columns: IntArray,
    scores: FloatArray,
    gallery: RankedLists,
    subset: RankedLists | None,
) -> None:
    """Rank a block of queries, and put their lists in place; a subset is part of the gallery."""
    queries = [data.queries[q] for q in rows.tolist()]
    out = [-1 if data.keep_reference else query.image for query in queries]
    relevant = [query.relevant for query in queries]
    gallery.insert(rows, rank_images(scores, columns, relevant, out))
    if subset is not None:
        inside = np.stack([np.isin(columns, query.subset) for query in queries])
        chosen = np.where(inside, scores, -np.inf)
        depth = subset.positions.shape[1]
        subset.insert(rows, rank_images(chosen, columns, relevant, out, depth=depth))


def empty_rankings(data: ComposedSet) -> tuple[RankedLists, RankedLists | None]:
    """Empty lists of the queries: of their galleries, and of their subsets where they have some."""
    longest = max((len(query.subset) for query in data.queries), default=0)
    count = len(data.queries)
    return RankedLists.empty(count), RankedLists.empty(count, longest) if longest else None


def rank_matrix(scores: FloatArray, data: ComposedSet) -> ComposedRankings:
    """Rank the queries by a matrix, queries × all images of the set."""
    gallery, subset = empty_rankings(data)
    for rows, columns in group_queries(data):
        rank_block(data, rows, columns, scores[np.ix_(rows, columns)], gallery, subset)
    return ComposedRankings(data, gallery, subset)


def read_rankings(path: Path, data: ComposedSet, *, partial: bool = False) -> ComposedRankings:
    """Read ranked lists of image names by query id: submissions to CIRR or CIRCO.

    Args:
        path: a JSON file, or a folder with one for the galleries and one for the subsets.
        data: the queries.
        partial: allow queries without a list.

    Raises:
        InputError: a list is malformed, names an unknown image or the same one twice, or a query
            has none.
    """
    files = [path]
    if path.is_dir():
        files = [file for file in sorted(path.glob("*.json")) if file.name != EXPORT_MARK]
    if not files:
        raise InputError("holds no .json file of rankings.", file=path)
    by_kind: dict[str, dict[str, Record]] = {}
    for file in files:
        records = {record.key: record for record in read_json_records(file, StrictProblems())}
        kind = str(records["metric"].value) if "metric" in records else RECALL
        if kind not in (RECALL, RECALL_SUBSET):
            message = f"its metric is {kind!r}; expected {RECALL} or {RECALL_SUBSET}."
            raise InputError(message, file=file)
        if kind in by_kind:
            raise InputError(f"holds two files of {kind}.", file=path)
        by_kind[kind] = {name: r for name, r in records.items() if name not in HEADER}
    queries = _select_queries(data, by_kind, path, partial=partial)
    rule = data.rule if data.listed else "the rankings may name images that the annotations do not"
    chosen = replace(data, queries=tuple(queries), rule=rule)
    names = {image.key: position for position, image in enumerate(data.images)}
    lists = {kind: _read_lists(records, chosen, names, kind) for kind, records in by_kind.items()}
    return ComposedRankings(chosen, lists.get(RECALL), lists.get(RECALL_SUBSET))


def _select_queries(
    data: ComposedSet, by_kind: Mapping[str, Mapping[str, Record]], path: Path, *, partial: bool
) -> Sequence[ComposedQuery]:
    """Queries that every file ranks; refuses unknown ones, and missing ones unless partial."""
    known = {query.id for query in data.queries}
    for records in by_kind.values():
        for name, record in records.items():
            if name not in known:
                message = f"the query {name!r} is not in the benchmark."
                raise InputError(message, file=record.file, line=record.line)
    ranked = [q for q in data.queries if all(q.id in records for records in by_kind.values())]
    missing = len(data.queries) - len(ranked)
    if missing and (not partial or not ranked):
        raise InputError(
            f"ranks {len(ranked):,} of {len(data.queries):,} queries; pass "
            f"{option('partial', True)} to measure those alone.",
            file=path,
        )
    return ranked


def _read_lists(
    records: Mapping[str, Record], data: ComposedSet, positions: Mapping[str, int], kind: str
) -> RankedLists:
    galleries = [set(gallery) for gallery in data.galleries]
    empty = RankedLists.empty(len(data.queries))
    for q, query in enumerate(data.queries):
        record = records[query.id]
        allowed = set(query.subset) if kind == RECALL_SUBSET else galleries[query.gallery]
        if not data.keep_reference:
            allowed = allowed - {query.image}
        names = _read_names(record)
        listed = np.array([positions.get(name, -1) for name in names], dtype=np.int64)
        if data.listed or kind == RECALL_SUBSET:
            for name, position in zip(names, listed.tolist(), strict=True):
                if position not in allowed:
                    where = "its subset" if kind == RECALL_SUBSET else "its gallery"
                    reference = position == query.image
                    why = "is its reference image" if reference else f"is not in {where}"
                    raise InputError(
                        f"query {query.id}: the image {name!r} {why}.",
                        file=record.file,
                        line=record.line,
                    )
        count = min(len(listed), empty.positions.shape[1])
        empty.positions[q, :count] = listed[:count]
        empty.hits[q, :count] = empty.lucky_hits[q, :count] = np.isin(
            listed[:count], query.relevant
        )
        right = np.flatnonzero(np.isin(listed, query.relevant))
        empty.first[q] = right[0] + 1 if right.size else 0
    return empty


def _read_names(record: Record) -> list[str]:
    """Names of a ranked list, best first; numbers become text."""
    values = record.value
    if not isinstance(values, list) or not all(
        isinstance(value, str | int) and not isinstance(value, bool) for value in values
    ):
        message = f"query {record.key}: expected a list of image names, best first."
        raise InputError(message, file=record.file, line=record.line)
    names = [str(value) for value in values]
    if len(set(names)) < len(names):
        message = f"query {record.key}: an image is listed twice."
        raise InputError(message, file=record.file, line=record.line)
    return names
