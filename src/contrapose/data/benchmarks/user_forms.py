"""Forms of the records of a user's file: those with the same fields are read together.

A file may mix them: choices, pairs, judgements. A record of a caption with negatives is as many
examples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from contrapose.data.benchmarks.user_fields import negative_columns
from contrapose.data.example_columns import Positions, keep_used, row_starts, take_rows
from contrapose.data.examples import Match
from contrapose.data.text_columns import TextColumn, arrow_positions
from contrapose.files.regular_tables import Table, array_bools, array_numbers, require

SHAPE_FIELD = re.compile(r"(image|text)(s|_\d+)?|match|label|right")
"""Fields that say which images and captions an example has, and which belong together."""

MAX_PARTIAL = 62
"""Fields that only some records have, up to which a form is a number of 64 bits."""

MAX_FORMS = 64
"""Forms of records up to which a file is read here."""


def with_ids(table: Table) -> Table:
    """Table whose ids are texts; the position of a record where it has none."""
    import pyarrow as pa

    count = len(next(iter(table.values())))
    ids = table.get("id")
    require(ids is None or ids.type in (pa.string(), pa.int64(), pa.null()))
    if ids is None or ids.null_count:
        positions = TextColumn.of(list(map(str, range(count)))).to_arrow()
        given = positions if ids is None else ids.cast(pa.large_string()).fill_null(positions)
        return {**table, "id": given}
    return {**table, "id": ids.cast(pa.large_string())}


def split_negatives(table: Table) -> Table:
    """Table in which each negative of a caption is an example, its kind as the tag `subset`."""
    names = negative_columns(table)
    texts = table.get("texts")
    if "caption" not in table or not names or (texts is not None and not texts.null_count):
        return table
    require(texts is None or texts.null_count == len(texts))
    caption = table["caption"]
    require(not caption.null_count)
    kept = {
        name: array
        for name, array in table.items()
        if name in ("id", "image", "images", "tags") or name.startswith("tag_")
    }
    columns = [array for name in names if (array := table[name]).null_count < len(array)]
    require(columns)
    negatives, sizes = _list_negatives(columns)
    require(sizes.min() > 0)
    if sizes.max() > 1:
        rows = np.repeat(np.arange(len(sizes)), sizes)
        caption, kept = _take(caption, rows), {n: _take(array, rows) for n, array in kept.items()}
        kept["id"] = _number_ids(kept["id"], np.arange(len(rows)) - row_starts(sizes)[rows], sizes)
    right = arrow_positions(np.zeros(len(caption), np.int64))
    kinds = _read_kinds(table, sizes)
    return {**kinds, **kept, "text_0": caption, "text_1": negatives, "right": right}


def _list_negatives(columns: Sequence[Any]) -> tuple[Any, Positions]:
    """Negatives of all records end to end, and how many each has; of one list, or of columns."""
    if len(columns) != 1 or holds_texts(columns[0]):
        return interleave(columns)
    (lists,) = columns
    require(hasattr(lists, "offsets") and not lists.null_count)
    return lists.flatten(), array_numbers(lists.value_lengths()).astype(np.int64)


def _read_kinds(table: Table, sizes: Positions) -> Table:
    """Kinds of all negatives, as `contrapose build pairs` writes them, as a column of tags.

    Args:
        table: the records.
        sizes: negatives of each.
    """
    import pyarrow as pa

    kinds, tags = table.get("kinds"), table.get("tags")
    if kinds is None or not _has_field(kinds, "negatives"):
        return {}
    require("tag_subset" not in table)
    require(tags is None or not _has_field(tags, "subset"))
    named = kinds.field("negatives")
    require(not kinds.null_count and not named.null_count and named.type == pa.list_(pa.string()))
    require((array_numbers(named.value_lengths()) == sizes).all())
    return {"tag_subset": named.flatten()}


def _has_field(objects: Any, name: str) -> bool:
    return hasattr(objects, "field") and objects.type.get_field_index(name) >= 0


def _number_ids(ids: Any, numbers: Positions, sizes: Positions) -> Any:
    """Ids of the negatives of captions: with their numbers, where there are several.

    Args:
        ids: the id of each negative's record.
        numbers: its number in the record.
        sizes: negatives of each record.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    dash = TextColumn.of(["-"]).to_arrow()[0]
    counts = arrow_positions(numbers).cast(pa.large_string())
    several = arrow_positions(np.repeat(sizes > 1, sizes)).cast(pa.bool_())
    return pc.if_else(several, pc.binary_join_element_wise(ids, counts, dash), ids)


def holds_texts(array: Any) -> bool:
    """Whether an Arrow array is one of texts."""
    import pyarrow as pa

    return array.type in (pa.string(), pa.large_string())


def interleave(columns: Sequence[Any]) -> tuple[Any, Positions]:
    """Texts of several columns, record by record without nulls, and how many each has."""
    import pyarrow as pa

    require(all(map(holds_texts, columns)))
    wide, count = len(columns), len(columns[0])
    if wide == 1 and not columns[0].null_count:
        return columns[0], np.ones(count, np.int64)
    joined = pa.concat_arrays([column.cast(pa.large_string()) for column in columns])
    valid = array_bools(joined.is_valid()).reshape(wide, count).T
    rows = np.arange(wide * count).reshape(wide, count).T[valid]
    return _take(joined, rows), valid.sum(axis=1)


def _take(array: Any, rows: Positions) -> Any:
    return array.take(arrow_positions(rows))


class Form(NamedTuple):
    """Examples of records with the same fields.

    Attributes:
        rows: their positions in the file.
        images: names of their images, end to end.
        image_starts: where the images of each begin, and the end of the last.
        texts: their captions, end to end.
        text_starts: where the captions of each begin, and the end of the last.
        matches: distinct match matrices.
        match_index: which an example has.
    """

    rows: Positions
    images: TextColumn
    image_starts: Positions
    texts: TextColumn
    text_starts: Positions
    matches: list[Match]
    match_index: Positions


def part_forms(table: Table) -> Iterator[tuple[Positions, Table]]:
    """Positions of the records that have the same fields, and these fields."""
    fields = {name: array for name, array in table.items() if SHAPE_FIELD.fullmatch(name)}
    partial = [name for name, array in fields.items() if array.null_count]
    require(len(partial) <= MAX_PARTIAL)
    forms = np.zeros(len(table["id"]), dtype=np.int64)
    for bit, name in enumerate(partial):
        forms |= array_bools(fields[name].is_valid()).astype(np.int64) << bit
    known = np.unique(forms).tolist()
    require(len(known) <= MAX_FORMS)
    for form in known:
        rows = np.flatnonzero(forms == form)
        absent = {name for bit, name in enumerate(partial) if not form >> bit & 1}
        some = {name: array for name, array in fields.items() if name not in absent}
        if len(known) > 1:
            some = {name: _take(array, rows) for name, array in some.items()}
        yield rows, some


def join_forms(forms: Sequence[Form]) -> Form:
    """Examples of several forms, in the order of the file."""
    order = np.argsort(np.concatenate([form.rows for form in forms]))
    images = _join_texts([(form.images, form.image_starts) for form in forms], order)
    texts = _join_texts([(form.texts, form.text_starts) for form in forms], order)
    numbers: dict[Match, int] = {}
    parts = []
    for form in forms:
        number = [numbers.setdefault(match, len(numbers)) for match in form.matches]
        parts.append(np.array(number, np.int64)[form.match_index])
    matches, index = keep_used(list(numbers), np.concatenate(parts)[order])
    return Form(np.sort(order), *images, *texts, matches, index)


def _join_texts(
    parts: Sequence[tuple[TextColumn, Positions]], order: Positions
) -> tuple[TextColumn, Positions]:
    """Texts of several columns end to end, their records in this order."""
    import pyarrow as pa

    joined = TextColumn.from_arrow(pa.concat_arrays([texts.to_arrow() for texts, _ in parts]))
    starts = row_starts(np.concatenate([np.diff(starts) for _, starts in parts]))
    picked, starts = take_rows(starts, order)
    return joined.take(picked), starts
