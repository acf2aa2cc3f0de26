"""Regular tables of JSON lines, CSV and Parquet: Arrow columns, without a Python object for a cell.

Arrow parses JSON lines and CSV many times quicker than Python, but not by the same rules. It is
asked only where the bytes leave no room for a difference: one object a line, no key twice, no
escaped surrogates, quotes only around a whole cell. A record may lack fields. Any other file raises
an `IrregularError`, and must be read in another way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise, starmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from contrapose.files.paths import arrow_path
from contrapose.files.records import require_parquet_size
from contrapose.files.text import require_regular

NOT_PLAIN = (b"\t", b"\r", b"\0")
"""Bytes of JSON that are left to Python's decoder: other space."""

SURROGATES = (b"\\ud", b"\\uD")
"""Beginnings of escapes that are left to it: halves of surrogate pairs."""

SPACED_KEY = re.compile(rb'" +:')

PLAIN_KEY = re.compile(r"[\w .-]+")
"""Names that are escaped by `\\u` alone, if at all."""

BLOCK_BYTES = 1 << 22
"""Bytes that Arrow parses at a time; a longer line is left to Python."""

MAX_OPENINGS = 2_000
"""Brackets that one line may open: Arrow crashes on values that are nested some thousand deep."""

PARSER_THREADS = 8
"""Threads that parse blocks at the most."""

MARK_BYTES = 1 << 18
"""Bytes that are searched for marks at a time: what a processor's cache holds."""

MAX_CSV_CELL = 100_000
"""Bytes of a cell; Python's reader refuses longer ones at some length."""

Table = dict[str, Any]
"""Arrow arrays by name, of one chunk each; null where a record lacks the field, or has no text."""


class IrregularError(Exception):
    """The file must be read in another way."""


def require(holds: object) -> None:
    """Raise an `IrregularError` where something does not hold."""
    if not holds:
        raise IrregularError


def array_numbers(array: Any) -> Any:
    """Integers of an Arrow array without nulls, without a copy."""
    return np.from_dlpack(array)


def array_bools(array: Any) -> Any:
    """Values of an Arrow array of true and false."""
    import pyarrow as pa

    return array_numbers(array.cast(pa.uint8())).astype(np.bool_)


def read_regular_table(path: Path) -> Table:
    """Read a file of regular records.

    Args:
        path: a JSONL, CSV, TSV or Parquet file.

    Raises:
        IrregularError: something is irregular.
        InputError: it is no regular file, or too large.
        ValueError: it is not UTF-8.
        OSError: it cannot be read.
    """
    import pyarrow as pa

    require_regular(path)
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            return _read_parquet(path)
        content = path.read_bytes()
        if not content.isascii():
            content.decode()
        if b"\r" in content:
            content = content.replace(b"\r\n", b"\n")
        if suffix in (".jsonl", ".ndjson"):
            return _read_jsonl(content)
        return _read_csv(content, b"\t" if suffix == ".tsv" else b",")
    except pa.ArrowException:
        raise IrregularError from None


def _read_jsonl(content: bytes) -> Table:
    """Parse JSON lines.

    Every line break parts two objects: it follows a `}` and precedes a `{`, and no text may hold
    one; there are as many objects as lines. Where no key has space behind it, every key is a
    `"key":`, and every one of null a `"key": null`. If there are as many others as values that are
    not null, none has a key twice; a text that holds a `":` makes them more.
    """
    if content.endswith(b"\n\n"):
        content = content.rstrip(b"\n")
    require(content[:1] == b"{" and content.endswith((b"}", b"}\n")))
    with ThreadPoolExecutor(1) as pool:  # Arrow parses without the interpreter's lock
        parsed = pool.submit(_parse_lines, content)
        strange = (*NOT_PLAIN, *SURROGATES) if b"\\" in content else NOT_PLAIN
        plain = not any(some in content for some in strange)
        marks = _count_marks(content)
        if marks.spaces and b" :" in content:
            plain = plain and not SPACED_KEY.search(content)
    require(plain)
    require(marks.objects == marks.lines)
    table = parsed.result()
    require(table.num_rows == marks.lines)
    require(len(set(table.column_names)) == len(table.column_names))
    columns = _plain_columns(table)
    nulls = content.count(b'": null') + content.count(b'":null') if b"null" in content else 0
    values = sum(len(array) - array.null_count for array in columns.values())
    require(marks.keys - nulls == values + sum(map(_count_values, columns.values())))
    for name, numbers in chain.from_iterable(starmap(_float_columns, columns.items())):
        if (numbers == np.floor(numbers)).any():  # Arrow does not say where an integer was
            require(PLAIN_KEY.fullmatch(name) and b"\\u" not in content)
            require(not re.search(rb'"%s": *-?[0-9]+ *[,}]' % re.escape(name.encode()), content))
    return columns


def parse_cells(table: Table, names: Iterable[str]) -> Table:
    """Parse the texts of some fields as JSON.

    Args:
        table: arrays by name.
        names: fields whose texts, if they have any, are lists or objects as JSON.

    Raises:
        IrregularError: a text is no regular JSON, or says null.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    parsed = dict(table)
    for name in names:
        cells = table.get(name)
        if cells is None or cells.type != pa.string() or cells.null_count == len(cells):
            continue
        begin, end, between = map(_text_scalar, (f'{{"{name}":', "}\n", ""))
        parts = begin, cells.cast(pa.large_string()), end, between
        lines = pc.binary_join_element_wise(
            *parts, null_handling="replace", null_replacement="null"
        )
        _, ends, content = lines.buffers()
        size = int(np.frombuffer(ends, np.int64)[len(lines)])
        columns = _read_jsonl(content[:size].to_pybytes())
        require(list(columns) == [name] and len(columns[name]) == len(cells))
        require(columns[name].null_count == cells.null_count)
        parsed[name] = columns[name]
    return parsed


def _text_scalar(text: str) -> Any:
    """Arrow scalar of a text; made by Arrow it would import pandas."""
    import pyarrow as pa

    content = text.encode()
    ends = pa.py_buffer(np.array([0, len(content)], np.int64))
    return pa.Array.from_buffers(pa.large_string(), 1, [None, ends, pa.py_buffer(content)])[0]


def _parse_lines(content: bytes) -> Any:
    """Parse JSON lines block by block, each by itself, and join what fits together.

    Of one file with several blocks Arrow may crash, or read other values, where a field has another
    type in a later one.
    """
    import pyarrow as pa
    import pyarrow.json as pj

    options = pj.ReadOptions(block_size=BLOCK_BYTES + 1, use_threads=False)
    buffer = pa.py_buffer(content)

    def parse(span: tuple[int, int]) -> Any:
        begin, end = span
        require(content[begin] == ord("{"))  # Arrow crashes on a block that begins with null
        _require_shallow(content, begin, end)
        return pj.read_json(pa.BufferReader(buffer.slice(begin, end - begin)), options)

    ends = [0]
    while ends[-1] < len(content):
        end = len(content)
        if end - ends[-1] > BLOCK_BYTES:
            end = content.rfind(b"\n", ends[-1], ends[-1] + BLOCK_BYTES) + 1
        require(end > ends[-1])
        ends.append(end)
    if len(ends) == 2:
        return parse((0, len(content)))
    with ThreadPoolExecutor(min(PARSER_THREADS, len(ends) - 1)) as pool:
        return pa.concat_tables(pool.map(parse, pairwise(ends)), promote_options="permissive")


def _require_shallow(content: bytes, begin: int, end: int) -> None:
    """Require that no line of a block opens very many brackets; a short one cannot."""
    letters = np.frombuffer(content, np.uint8)[begin:end]
    breaks = np.concatenate([[-1], np.flatnonzero(letters == ord("\n")), [end - begin]])
    for k in np.flatnonzero(np.diff(breaks) > 2 * MAX_OPENINGS).tolist():
        line = begin + int(breaks[k]) + 1, begin + int(breaks[k + 1])
        require(content.count(b"[", *line) + content.count(b"{", *line) <= MAX_OPENINGS)


class _Marks(NamedTuple):
    """Counts of the bytes that part records and keys.

    Attributes:
        lines: lines, of which the last need not be ended.
        objects: objects, where there is one more than line breaks between `}` and `{`.
        keys: quotes before a colon.
        spaces: quotes before a space.
    """

    lines: int
    objects: int
    keys: int
    spaces: int


def _count_marks(content: bytes) -> _Marks:
    """Count marks, block by block; many times as quick as `bytes.count` finds two letters."""
    letters = np.frombuffer(content, np.uint8)
    breaks = objects = keys = spaces = 0
    for start in range(0, len(letters), MARK_BYTES):
        some = letters[start : start + MARK_BYTES]
        behind = letters[start + 1 : start + 1 + len(some)]
        quotes = some[: len(behind)] == ord('"')
        keys += int(np.count_nonzero(quotes & (behind == ord(":"))))
        spaces += int(np.count_nonzero(quotes & (behind == ord(" "))))
        ends = start + np.flatnonzero(some == ord("\n"))
        breaks += len(ends)
        ends = ends[ends < len(letters) - 1]
        between = (letters[ends - 1] == ord("}")) & (letters[ends + 1] == ord("{"))
        objects += int(np.count_nonzero(between))
    return _Marks(breaks + (not content.endswith(b"\n")), objects + 1, keys, spaces)


def _count_values(array: Any) -> int:
    """Values in the objects of a field, also of those in lists; none of null."""
    import pyarrow as pa

    if pa.types.is_list(array.type):
        return _count_values(array.flatten())
    if not pa.types.is_struct(array.type):
        return 0
    fields = array.flatten()
    return sum(len(field) - field.null_count + _count_values(field) for field in fields)


def _float_columns(name: str, array: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of columns of numbers, of which one has a point."""
    import pyarrow as pa

    if pa.types.is_struct(array.type):
        fields = [array.type.field(i).name for i in range(array.type.num_fields)]
        yield from chain.from_iterable(map(_float_columns, fields, array.flatten()))
    elif array.type == pa.float64():
        yield name, array_numbers(array.drop_null())


def _read_csv(content: bytes, delimiter: bytes) -> Table:
    """Parse a table of cells, all of them texts."""
    import pyarrow as pa
    import pyarrow.csv as pv

    require(b"\r" not in content and b"\0" not in content and b"\n\n" not in content)
    require(content[:1] not in (b"", b"\n", b"\xef"))
    head, _, rows = content.partition(b"\n")
    require(rows and b'"' not in head and len(head) < MAX_CSV_CELL)
    _require_plain_quotes(content, delimiter)
    names = head.decode().split(delimiter.decode())
    require(len(set(names)) == len(names))
    table = pv.read_csv(
        pa.BufferReader(content),
        read_options=pv.ReadOptions(block_size=BLOCK_BYTES),
        parse_options=pv.ParseOptions(delimiter=delimiter.decode(), ignore_empty_lines=False),
        convert_options=pv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    require(table.column_names == names)
    require(table.num_rows == rows.rstrip(b"\n").count(b"\n") + 1)
    columns = _plain_columns(table)
    for column in columns.values():
        ends = np.frombuffer(column.buffers()[1], np.int32)
        require(np.diff(ends[column.offset : column.offset + len(column) + 1]).max() < MAX_CSV_CELL)
    return columns


def _require_plain_quotes(content: bytes, delimiter: bytes) -> None:
    """Require that quotes stand around whole cells of one line, and are doubled inside."""
    letters = np.frombuffer(content, np.uint8)
    quotes = np.flatnonzero(letters == ord('"'))
    if not len(quotes):
        return
    ends = np.array([ord(delimiter), ord("\n")], np.uint8)
    require(len(quotes) % 2 == 0)
    opening, closing = quotes[::2], quotes[1::2]
    doubled = opening[1:] == closing[:-1] + 1  # a quote inside of a cell
    begins = np.isin(letters[opening - 1], ends)  # the head has none, so that none is the first
    finishes = np.ones(len(closing), np.bool_)
    inner = closing < len(letters) - 1
    finishes[inner] = np.isin(letters[closing[inner] + 1], ends)
    require((begins[1:] | doubled).all() and begins[0])
    require((finishes[:-1] | doubled).all() and finishes[-1])
    breaks = np.flatnonzero(letters == ord("\n"))
    require((np.searchsorted(quotes, breaks) % 2 == 0).all())


def _read_parquet(path: Path) -> Table:
    import pyarrow.parquet as pq

    with pq.ParquetFile(arrow_path(path)) as file:
        require_parquet_size(file, path)
        table = file.read()
    require(len(set(table.column_names)) == len(table.column_names))
    table.validate(full=True)  # Parquet may hold bytes that are no text
    return _plain_columns(table)


def _plain_columns(table: Any) -> Table:
    """Arrow arrays of one chunk each; lists hold no nulls."""
    require(table.num_rows)
    columns = {}
    for name in table.column_names:
        column = table[name]
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        require(hasattr(array, "buffers"))
        columns[name] = array
    for array in columns.values():
        _require_plain(array)
    return columns


def _require_plain(array: Any, *, listed: bool = False) -> None:
    """Require texts, numbers, true and false, objects of these, and lists without nulls."""
    import pyarrow as pa

    require(not listed or array.null_count == 0)
    if pa.types.is_list(array.type):
        _require_plain(array.values, listed=True)
    elif pa.types.is_struct(array.type):
        for i in range(array.type.num_fields):
            _require_plain(array.field(i))
    else:
        plain = (pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.null())
        require(array.type in plain)
