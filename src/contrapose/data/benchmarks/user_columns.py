"""Columns of a user's file: all records at once, into few lists and arrays.

The forms are those of `user_file`. Regular records are read by Arrow (`user_tables`), others as
Python values. Whatever is wrong, or said in a way that is not looked for here, makes the result
None, and the careful reader reads the file record by record: it says where a fault is and why. A
file that is read here has no fault that the careful reader would find.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from contrapose.data.benchmarks.user_fields import LABELS
from contrapose.data.benchmarks.user_plain import PlainReader
from contrapose.data.benchmarks.user_tables import (
    match_rights,
    number_matrices,
    read_table_columns,
)
from contrapose.data.benchmarks.user_videos import SPAN_FIELDS
from contrapose.data.example_columns import (
    ExampleColumns,
    Positions,
    first_appearances,
    join_rows,
    order_tags,
)
from contrapose.data.examples import Match, TagValue
from contrapose.data.images import ImageRef
from contrapose.data.text_columns import TextColumn
from contrapose.data.video_clips import has_video_images
from contrapose.errors import ContraposeError
from contrapose.files import (
    MalformedError,
    StrictProblems,
    arrow_path,
    may_hold_surrogates,
    read_text,
    require_parquet_size,
    require_regular,
    unique_keys,
)
from contrapose.files.regular_tables import IrregularError, require

Columns = dict[str, Sequence[Any]]
"""Values of every field, record by record; None or empty text where a record lacks it."""

EMPTY = (None, "")

NOT_PLAIN = ("\\", "\t", "\r", '" ')

TWO_OBJECTS = re.compile(r"}\s*,\s*{")


def read_columns(path: Path, images: PlainReader) -> ExampleColumns | None:
    """Read a file of examples by columns; None where the careful reader is needed.

    Args:
        path: a JSONL, CSV, TSV or Parquet file.
        images: reads names of images.
    """
    for read in (read_table_columns, _read_columns):
        try:
            return read(path, images)
        except (IrregularError, MalformedError, ContraposeError):
            pass
        except (ValueError, TypeError, LookupError, RecursionError, OverflowError, OSError):
            pass
        except (csv.Error, StopIteration):
            pass
    return None


def _read_columns(path: Path, images: PlainReader) -> ExampleColumns:
    columns, count = _read_fields(path)
    require(_is_absent(columns.get("video")))
    built = _build(_split_negatives(columns, count), images.build_image)
    spans = any(not _is_absent(columns.get(name)) for name in SPAN_FIELDS)
    require(not spans or not has_video_images(built.refs))
    return built


def _read_fields(path: Path) -> tuple[Columns, int]:
    """Read the fields of all records, and count the records."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _read_parquet(path)
    text = read_text(path, StrictProblems())
    require(not may_hold_surrogates(text))
    if suffix in (".jsonl", ".ndjson"):
        return _read_jsonl(text)
    require(suffix in (".csv", ".tsv"))
    return _read_csv(text, "\t" if suffix == ".tsv" else ",")


def _read_jsonl(text: str) -> tuple[Columns, int]:
    """Decode all lines as one list, which has as many objects as there are lines.

    Every line break parts two objects: it follows a `}` and precedes a `{`, and no text may hold
    one. No comma does so, and therefore no line holds two objects.
    """
    text = text.replace("\r\n", "\n").rstrip("\n")
    lines = text.count("\n") + 1
    one_each = text.count("{") == lines
    require(text.count("}\n{") == lines - 1 and (one_each or not TWO_OBJECTS.search(text)))
    listed = "[" + text.replace("\n", ",\n") + "]"
    # In a text without backslashes, inner objects and space behind quotes, no string holds a quote,
    # and every key of a record is a `"key":`: if there are as many as the records have, none has
    # one twice.
    plain = one_each and not any(some in text for some in NOT_PLAIN)
    records = json.loads(listed, object_pairs_hook=None if plain else unique_keys)
    require(len(records) == lines and set(map(type, records)) == {dict})
    orders = Counter(map(tuple, records))
    names = dict.fromkeys(chain.from_iterable(orders))
    if plain:
        keys = sum(count * len(order) for order, count in orders.items())
        require(text.count('":') == keys)
    if len(orders) == 1:
        columns = zip(*map(dict.values, records), strict=True)
        return dict(zip(names, columns, strict=True)), lines
    return {name: [record.get(name) for record in records] for name in names}, lines


def _read_csv(text: str, delimiter: str) -> tuple[Columns, int]:
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    require(len(rows) > 1)
    header = rows[0]
    require(len(set(header)) == len(header) and set(map(len, rows)) == {len(header)})
    return dict(zip(header, zip(*rows[1:], strict=True), strict=True)), len(rows) - 1


def _read_parquet(path: Path) -> tuple[Columns, int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_regular(path)
    try:
        with pq.ParquetFile(arrow_path(path)) as file:
            require_parquet_size(file, path)
            table = file.read()
        require(len(set(table.column_names)) == len(table.column_names) and table.num_rows)
        return {name: table[name].to_pylist() for name in table.column_names}, table.num_rows
    except pa.ArrowException:
        raise IrregularError from None


def _split_negatives(columns: Columns, count: int) -> Columns:
    """Columns in which every record has an id, and each negative of a caption is an example."""
    columns = {**columns, "id": _read_ids(columns.get("id"), count)}
    if "caption" not in columns or not _is_absent(columns.get("texts")):
        return columns
    numbered = [name for name in columns if name.startswith("negative")]
    if not numbered:
        return columns
    require(numbered in (["negative"], ["negatives"]) and _is_absent(columns.get("kinds")))
    (name,) = numbered
    negatives = columns[name]
    if name == "negative":
        require(set(map(type, negatives)) == {str} and all(negatives))
        lists: Sequence[Any] = list(zip(negatives, strict=True))
    else:
        lists = _parse_lists(negatives)
    sizes = list(map(len, lists))
    require(min(sizes) > 0)
    ids = columns["id"]
    if max(sizes) > 1:
        ids = [
            f"{stem}-{i}" if size > 1 else stem
            for stem, size in zip(ids, sizes, strict=True)
            for i in range(size)
        ]
    kept = {
        field: list(chain.from_iterable(map(repeat, values, sizes)))
        for field, values in columns.items()
        if field in ("image", "images", "tags", "caption") or field.startswith("tag_")
    }
    texts = list(zip(kept.pop("caption"), chain.from_iterable(lists), strict=True))
    return {**kept, "id": ids, "texts": texts, "right": [0] * len(texts)}


def _read_ids(values: Sequence[Any] | None, count: int) -> Sequence[str]:
    """Ids as texts; the position of a record where it has none."""
    if values is None:
        return list(map(str, range(count)))
    kinds = set(map(type, values))
    require(kinds <= {str, int, type(None)})
    if kinds == {str} and all(map(str.strip, values)):
        return values
    ids = [str(k) if value in EMPTY else str(value) for k, value in enumerate(values)]
    require(all(map(str.strip, ids)))  # the careful reader refuses a blank id
    return ids


def _build(columns: Columns, image: Callable[[str], ImageRef]) -> ExampleColumns:
    ids = columns["id"]
    names, image_starts = join_rows(_read_lists(columns, "images", "image"))
    texts, text_starts = join_rows(_read_lists(columns, "texts", "text"))
    distinct = dict(zip(dict.fromkeys(names), range(len(names)), strict=False))
    images, captions = np.diff(image_starts), np.diff(text_starts)
    matches, index = _read_matches(columns, images, captions)
    return ExampleColumns(
        ids=TextColumn.of(ids),
        refs=[image(name) for name in distinct],
        images=np.fromiter(map(distinct.__getitem__, names), np.int64, len(names)),
        image_starts=image_starts,
        texts=TextColumn.of(texts),
        text_starts=text_starts,
        matches=matches,
        match_index=index,
        tags=_read_tags(columns),
    )


def _is_absent(values: Sequence[Any] | None) -> bool:
    return values is None or not any(value not in EMPTY for value in values)


def _is_full(values: Sequence[Any]) -> bool:
    return all(value not in EMPTY for value in values) if None in values else "" not in values


def _read_lists(columns: Columns, several: str, one: str) -> Sequence[Sequence[str]]:
    """Lists of texts of all records, by the same field in all; none is empty, nor a text."""
    if not _is_absent(columns.get(several)):
        require(_is_full(columns[several]))
        lists = _parse_lists(columns[several])
    elif not _is_absent(columns.get(one)):
        require(_is_full(columns[one]))
        lists = list(zip(columns[one], strict=True))
    else:
        numbered = [columns[name] for i in range(len(columns)) if (name := f"{one}_{i}") in columns]
        require(numbered and all(f"{one}_{i}" in columns for i in range(len(numbered))))
        lists = list(zip(*numbered, strict=True))
        if not all(map(_is_full, numbered)):
            lists = [tuple(_until_empty(row)) for row in lists]
    flat = list(chain.from_iterable(lists))
    require(set(map(type, flat)) == {str} and all(map(str.strip, flat)) and all(lists))
    return lists


def _until_empty(row: Sequence[Any]) -> Iterator[Any]:
    for value in row:
        if value in EMPTY:
            return
        yield value


def _parse_lists(values: Sequence[Any]) -> Sequence[Sequence[Any]]:
    """Lists as they are, or from the JSON in all cells."""
    lists = _parse_cells(values)
    require(set(map(type, lists)) <= {list, tuple})
    return lists


def _parse_cells(values: Sequence[Any]) -> Sequence[Any]:
    """Values as they are, or from the JSON in all cells."""
    kinds = set(map(type, values))
    if str in kinds:
        require(kinds == {str} and not any(map(may_hold_surrogates, values)))
        decode = json.JSONDecoder(object_pairs_hook=unique_keys).raw_decode
        parsed, ends = zip(*map(decode, values), strict=True)
        require(all(map(int.__eq__, ends, map(len, values))))
        return parsed
    return values


def _read_matches(
    columns: Columns, images: Positions, captions: Positions
) -> tuple[list[Match], Positions]:
    """Distinct match matrices, and which an example has."""
    single = bool((images * captions == 1).all())
    if not _is_absent(columns.get("match")):
        return _read_matrices(columns["match"], images, captions)
    labels = columns.get("label")
    if labels is not None and not _is_absent(labels):
        require(single and _is_full(labels) and set(map(type, labels)) <= {str, int, bool})
        known = {label: LABELS[str(label).strip().lower()] for label in set(labels)}
        matches: dict[Match, int] = {}
        number = {
            label: matches.setdefault(((known[label],),), len(matches))
            for label in dict.fromkeys(labels)
        }
        return list(matches), np.fromiter(map(number.__getitem__, labels), np.int64, len(labels))
    right = columns.get("right", ())
    kinds = set(map(type, right))
    if kinds == {str}:
        require(all(map(str.isdecimal, right)) and "".join(right).isascii())
        right, kinds = list(map(int, right)), {int}
    require(kinds == {int} and (images == 1).all())
    rights = np.array(right, dtype=np.int64)
    return match_rights(rights, captions)


def _read_matrices(
    values: Sequence[Any], images: Positions, captions: Positions
) -> tuple[list[Match], Positions]:
    """Distinct matrices of true and false."""
    require(_is_full(values))
    lists = _parse_lists(values)
    rows, row_begins = join_rows(lists)
    require(set(map(type, rows)) <= {list, tuple} and (np.diff(row_begins) == images).all())
    cells, cell_begins = join_rows(rows)
    require((np.diff(cell_begins) == np.repeat(captions, images)).all())
    require(set(map(type, cells)) == {bool})
    index = number_matrices(np.array(cells, dtype=np.bool_), images, captions)
    firsts = first_appearances(index).tolist()
    return [tuple(tuple(row) for row in lists[k]) for k in firsts], index


def _read_tags(columns: Columns) -> dict[str, Sequence[TagValue | None]]:
    tags: dict[str, Sequence[Any]] = {
        name.removeprefix("tag_"): values
        for name, values in columns.items()
        if name.startswith("tag_")
    }
    objects = columns.get("tags")
    if objects is not None and not _is_absent(objects):
        if not _is_full(objects):
            blank = "{}" if str in set(map(type, objects)) else {}
            objects = [blank if value in EMPTY else value for value in objects]
        objects = _parse_cells(objects)
        require(set(map(type, objects)) == {dict})
        names = dict.fromkeys(chain.from_iterable(dict.fromkeys(map(tuple, objects))))
        require(not tags.keys() & names.keys())
        tags |= {name: [value.get(name) for value in objects] for name in names}
    return order_tags({name: _read_tag(values) for name, values in tags.items()})


def _read_tag(values: Sequence[Any]) -> Sequence[TagValue | None]:
    if set(map(type, values)) == {str} and "" not in values:
        return values
    return [_tag_value(value) for value in values]


def _tag_value(value: Any) -> TagValue | None:
    if value in (None, "", []):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        require(all(isinstance(item, str) for item in value))
        return tuple(value)
    require(isinstance(value, int | float))
    return str(value)
