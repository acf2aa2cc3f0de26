"""Columns of a user's file of regular records, from Arrow arrays; see `regular_tables`.

Records of several forms may be mixed; those of one form have the same fields. No text is empty.
Any other file raises an `IrregularError`, and `user_columns` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose.data.benchmarks.user_fields import LABELS
from contrapose.data.benchmarks.user_forms import (
    Form,
    holds_texts,
    interleave,
    join_forms,
    part_forms,
    split_negatives,
    with_ids,
)
from contrapose.data.benchmarks.user_plain import PlainReader
from contrapose.data.benchmarks.user_videos import SPAN_FIELDS
from contrapose.data.example_columns import (
    ExampleColumns,
    Positions,
    first_appearances,
    number_by_appearance,
    order_tags,
    row_starts,
)
from contrapose.data.examples import Match, TagValue, single_match
from contrapose.data.images import ImageRef
from contrapose.data.ref_columns import FileColumn, RefColumn, are_plain_names
from contrapose.data.text_columns import TextColumn
from contrapose.data.video import VIDEO_SUFFIXES
from contrapose.data.video_clips import VideoRef, has_video_images
from contrapose.files.regular_tables import (
    IrregularError,
    Table,
    array_bools,
    array_numbers,
    parse_cells,
    read_regular_table,
    require,
)

STRUCTURES = ("images", "texts", "match", "tags", "negatives")
"""Fields whose texts are JSON, as those of cells of CSV."""

MAX_MATCH_CELLS = 62
"""Cells of a match matrix up to which it is a number of 64 bits."""

MANY_IMAGES, MOST_OBJECTS = 1 << 13, 1 << 20
"""Images up to which each is an object, where all names are plain, and otherwise; an object takes
half a kilobyte, and some microseconds."""

BoolCells = NDArray[np.bool_]


def read_table_columns(path: Path, images: PlainReader) -> ExampleColumns:
    """Read a file of regular records.

    Args:
        path: a JSONL, CSV, TSV or Parquet file.
        images: reads names of images.

    Raises:
        IrregularError: something is irregular.
        MalformedError: a name of an image is refused.
        OSError: the file cannot be read.
    """
    import pyarrow as pa

    try:
        return _build(parse_cells(read_regular_table(path), STRUCTURES), images)
    except pa.ArrowException:
        raise IrregularError from None


def _build(table: Table, reader: PlainReader) -> ExampleColumns:
    table = with_ids(table)
    _require_words(TextColumn.from_arrow(table["id"]))  # before negatives get numbers behind it
    given = {name for name, array in table.items() if array.null_count < len(array)}
    require("video" not in given)
    table = split_negatives(table)
    table = {name: array for name, array in table.items() if array.null_count < len(array)}
    forms = [_read_form(rows, fields) for rows, fields in part_forms(table)]
    form = forms[0] if len(forms) == 1 else join_forms(forms)
    images = form.images.to_arrow().dictionary_encode()
    refs = _read_refs(TextColumn.from_arrow(images.dictionary), reader)
    spans = not given.isdisjoint(SPAN_FIELDS)
    require(not spans or not has_video_images(refs))
    return ExampleColumns(
        ids=TextColumn.from_arrow(table["id"]),
        refs=refs,
        images=array_numbers(images.indices).astype(np.int64),
        image_starts=form.image_starts,
        texts=form.texts,
        text_starts=form.text_starts,
        matches=form.matches,
        match_index=form.match_index,
        tags=_read_tags(table),
    )


def _read_form(rows: Positions, table: Table) -> Form:
    texts, text_starts = _read_lists(table, "texts", "text")
    names, image_starts = _read_lists(table, "images", "image")
    _require_words(texts)
    sizes = np.diff(image_starts), np.diff(text_starts)
    require(min(map(np.min, sizes)) > 0)
    matches, index = _read_matches(table, *sizes)
    return Form(rows, names, image_starts, texts, text_starts, matches, index)


def _read_refs(names: TextColumn, reader: PlainReader) -> Sequence[ImageRef]:
    """References of images; very many are built only when they are read."""
    if len(names) > MANY_IMAGES and are_plain_names(names, VIDEO_SUFFIXES):
        return FileColumn(names, reader.root)
    if len(names) <= MOST_OBJECTS:
        return [reader.build_image(name) for name in names]
    for name in names:  # raises a `MalformedError` where a name is refused
        require(not isinstance(reader.build_image(name), VideoRef))
    return RefColumn(names, reader.build_image)


def _require_words(texts: TextColumn) -> None:
    """Require that no text is empty or blank; one whose first letter is printed ASCII is not."""
    require(texts.sizes.min(initial=1) > 0)
    first = np.frombuffer(texts.data, np.uint8)[texts.offsets[:-1]]
    doubtful = np.flatnonzero((first <= ord(" ")) | (first >= 127))
    if len(doubtful):
        require(all(map(str.strip, texts.take(doubtful))))


def _read_lists(table: Table, several: str, one: str) -> tuple[TextColumn, Positions]:
    """Texts of all records end to end, and where those of each begin."""
    if several in table:
        lists = table[several]
        require(hasattr(lists, "offsets"))
        _require_strings([lists.values])
        starts = array_numbers(lists.offsets).astype(np.int64)
        values = lists.values
        if starts[0] or len(values) != starts[-1]:
            values = values.slice(int(starts[0]), int(starts[-1] - starts[0]))
        return TextColumn.from_arrow(values), starts - starts[0]
    if one in table:
        _require_strings([table[one]])
        return TextColumn.from_arrow(table[one]), np.arange(len(table[one]) + 1)
    numbered = [table[name] for i in range(len(table)) if (name := f"{one}_{i}") in table]
    require(numbered and all(f"{one}_{i}" in table for i in range(len(numbered))))
    values, sizes = interleave(numbered)
    return TextColumn.from_arrow(values), row_starts(sizes)


def _require_strings(arrays: Sequence[Any]) -> None:
    require(all(map(holds_texts, arrays)))


def _read_matches(
    table: Table, images: Positions, captions: Positions
) -> tuple[list[Match], Positions]:
    """Distinct match matrices, and which an example has."""
    import pyarrow as pa

    if "match" in table:
        return _read_matrices(table["match"], images, captions)
    if "label" in table:
        require((images * captions == 1).all())
        labels = table["label"]
        require(labels.type in (pa.string(), pa.bool_(), pa.int64()))
        if labels.type == pa.bool_():
            numbers = array_bools(labels).astype(np.int64)
            index = number_by_appearance(numbers)
            return [((bool(numbers[k]),),) for k in first_appearances(index).tolist()], index
        coded = labels.cast(pa.string()).dictionary_encode()
        words = [text.strip().lower() for text in TextColumn.from_arrow(coded.dictionary)]
        require(all(word in LABELS for word in words))
        matches: dict[Match, int] = {}
        number = [matches.setdefault(((LABELS[word],),), len(matches)) for word in words]
        return list(matches), np.array(number, np.int64)[array_numbers(coded.indices)]
    require((images == 1).all())
    return match_rights(_read_rights(table.get("right")), captions)


def match_rights(rights: Positions, captions: Positions) -> tuple[list[Match], Positions]:
    """Distinct match matrices of one image with its captions, of which one is right."""
    require((rights >= 0).all() and (rights < captions).all())
    index = number_by_appearance(captions * (int(captions.max()) + 1) + rights)
    first = first_appearances(index)
    pairs = zip(captions[first].tolist(), rights[first].tolist(), strict=True)
    return [single_match(count, which) for count, which in pairs], index


def _read_rights(array: Any) -> Positions:
    """Positions of the right captions: numbers, or texts of a few digits."""
    import pyarrow as pa

    require(array is not None and array.type in (pa.string(), pa.int64()))
    if array.type == pa.int64():
        numbers: Positions = array_numbers(array)
        return numbers
    coded = array.dictionary_encode()
    words = list(TextColumn.from_arrow(coded.dictionary))
    require(all(word.isascii() and word.isdecimal() and len(word) < 10 for word in words))
    rights: Positions = np.array(list(map(int, words)), np.int64)[array_numbers(coded.indices)]
    return rights


def _read_matrices(
    array: Any, images: Positions, captions: Positions
) -> tuple[list[Match], Positions]:
    import pyarrow as pa

    require(array.type == pa.list_(pa.list_(pa.bool_())))
    rows = array.flatten()
    require((array_numbers(array.value_lengths()) == images).all())
    require((array_numbers(rows.value_lengths()) == np.repeat(captions, images)).all())
    index = number_matrices(array_bools(rows.flatten()), images, captions)
    firsts = first_appearances(index).tolist()
    return [tuple(map(tuple, array[k].as_py())) for k in firsts], index


def number_matrices(cells: BoolCells, images: Positions, captions: Positions) -> Positions:
    """Number of each example's match matrix, in order of first appearance.

    Args:
        cells: all matrices end to end, row by row.
        images: (k,) rows of each.
        captions: (k,) columns of each.
    """
    sizes = images * captions
    require(sizes.max() <= MAX_MATCH_CELLS)
    starts = row_starts(sizes)
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
    numbers = np.add.reduceat(cells.astype(np.int64) << within, starts[:-1])
    require(((numbers > 0) | (sizes == 1)).all())
    _, number_codes = np.unique(numbers, return_inverse=True)
    codes = (number_codes * (MAX_MATCH_CELLS + 1) + images) * (MAX_MATCH_CELLS + 1) + captions
    return number_by_appearance(codes)


def _read_tags(table: Table) -> dict[str, Sequence[TagValue | None]]:
    """Values of each tag, in the order in which tags appear."""
    tags = {
        name.removeprefix("tag_"): array for name, array in table.items() if name.startswith("tag_")
    }
    if "tags" in table:
        objects = table["tags"]
        require(hasattr(objects, "field"))
        fields = [objects.type.field(i).name for i in range(objects.type.num_fields)]
        require(len(set(fields)) == len(fields) and not tags.keys() & set(fields))
        tags |= dict(zip(fields, objects.flatten(), strict=True))
    return order_tags({name: _read_tag(array) for name, array in tags.items()})


def _read_tag(array: Any) -> Sequence[TagValue | None]:
    """Values of a tag, of which none is empty; equal ones are one object."""
    import pyarrow as pa

    values: list[TagValue | None]
    if array.null_count == len(array):
        return [None] * len(array)
    if pa.types.is_list(array.type):
        require(array.type.value_type in (pa.string(), pa.null()))  # all empty, where null
        return [tuple(value) if value else None for value in array.to_pylist()]
    if array.type == pa.float64():
        numbers = array_numbers(array.fill_null(0.0))
        require(np.isfinite(numbers).all())
        distinct, index = np.unique(numbers.view(np.int64), return_inverse=True)
        values = list(map(str, distinct.view(np.float64).tolist()))
    else:
        require(array.type in (pa.string(), pa.int64()))
        coded = array.cast(pa.string()).dictionary_encode()
        values = list(TextColumn.from_arrow(coded.dictionary))
        require(all(values))
        index = array_numbers(coded.indices.fill_null(0))
    if array.null_count:
        index = np.where(array_bools(array.is_valid()), index, len(values))
    values.append(None)
    return [values[i] for i in index.tolist()]
