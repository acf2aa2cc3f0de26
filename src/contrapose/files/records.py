"""Records of JSON, JSONL, CSV and Parquet files, each with its line number."""

from __future__ import annotations

import csv
import gc
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

from contrapose.errors import InputError, first_line, printable
from contrapose.files.paths import arrow_path
from contrapose.files.text import (
    DoubledKeyError,
    JsonScanner,
    MalformedError,
    Problem,
    Problems,
    StrictProblems,
    SurrogateError,
    describe_json_error,
    find_doubled_key,
    is_valid_unicode,
    may_hold_surrogates,
    parse_json,
    read_text,
    require_regular,
    require_unicode,
    unique_keys,
)

T = TypeVar("T")


@dataclass(slots=True)
class Record:
    """One record of a file, with its line and key.

    Attributes:
        value: its content, as JSON values.
        file: the file it comes from.
        line: the line it starts on (CSV, JSON, JSONL) or its row (Parquet), from 1.
        key: its key when the file is one JSON object, its position from 0 when it is a list.
    """

    value: Any
    file: Path
    line: int
    key: str

    def inner(self, value: Any, key: str | None = None) -> Record:
        """Record of a value inside of this one, on its line; without a key of its own with its."""
        return Record(value, self.file, self.line, self.key if key is None else key)

    def field(self, name: str) -> Any:
        """Return the value of a required field."""
        if not isinstance(self.value, dict):
            raise MalformedError(
                f"record {self.key}: expected an object with fields, found "
                f"{_describe_kind(self.value)}."
            )
        if name not in self.value:
            raise MalformedError(f"record {self.key}: the field {name!r} is missing.")
        return self.value[name]

    def text(self, name: str) -> str:
        """Return a required field that is non-empty text."""
        return self.check_text(name, self.field(name))

    def check_text(self, name: str, value: Any) -> str:
        """Check that a value of a field is non-empty text, and return it."""
        if not isinstance(value, str) or not value.strip():
            raise MalformedError(
                f"record {self.key}: {name!r} must be text, found {_describe_kind(value)}."
            )
        if not is_valid_unicode(value):
            raise MalformedError(f"record {self.key}: {name!r} holds half of a surrogate pair.")
        return value

    def name(self, name: str) -> str:
        """Return a required identifier: text, or an integer as text."""
        value = self.field(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.text(name)

    def number(self, name: str) -> float:
        """Return a required field that is a finite number; CSV's text numbers count.

        Python's own spelling `1_0` is no number of a file.
        """
        value = self.field(name)
        if isinstance(value, str) and value.isascii() and "_" not in value:
            with suppress(ValueError):
                value = float(value) if math.isfinite(float(value)) else value
        return self._check(require_number, name, value)

    def integer(self, name: str) -> int:
        """Return a required field that is an integer."""
        return self._check(require_integer, name, self.number(name))

    def _check(self, check: Callable[[str, object], T], name: str, value: object) -> T:
        try:
            return check(name, value)
        except MalformedError as error:
            raise MalformedError(f"record {self.key}: {error}") from None


def require_number(name: str, value: object) -> float:
    """Check that the value of a field or an argument is a finite number, also one of NumPy.

    Raises:
        MalformedError: it is none.
    """
    try:
        number = float(value) if isinstance(value, int | float | Real) else math.nan
    except OverflowError:
        number = math.nan
    if not math.isfinite(number) or isinstance(value, bool):
        raise MalformedError(f"{name!r} must be a finite number, found {_describe_value(value)}.")
    return number


def require_integer(name: str, value: object) -> int:
    """Check that the value of a field or an argument is a whole number.

    Raises:
        MalformedError: it is none.
    """
    number = require_number(name, value)
    if number != int(number):
        raise MalformedError(f"{name!r} must be a whole number, found {number}.")
    return int(number)


def parse_records(
    records: Iterable[Record], build: Callable[[Record], T], problems: Problems
) -> Iterator[T]:
    """Build a value from each record; malformed records are reported as problems."""
    for record in records:
        try:
            built = build(record)
        except MalformedError as error:
            problems.report(Problem("malformed record", str(error), record.file, record.line))
        else:
            yield built


def read_json(path: Path, problems: Problems | None = None) -> Any:
    """Read a whole JSON file."""
    text = read_text(path, problems or StrictProblems())
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        if isinstance(error, DoubledKeyError):
            line = find_doubled_key(text)
        message = f"is not valid JSON ({describe_json_error(error)})."
        raise InputError(message, file=path, line=line) from None


def read_json_records(path: Path, problems: Problems, under: str | None = None) -> Iterator[Record]:
    """Read the entries of a JSON list or object one by one, with their lines.

    Args:
        path: the file.
        problems: receives a problem for bytes that are not UTF-8.
        under: key of the outermost object whose value's entries are read; None reads its own.
    """
    text = read_text(path, problems)
    scanner = JsonScanner(text, path)
    start = 0 if under is None else scanner.find(under)
    doubtful = may_hold_surrogates(text)
    for key, at, value in scanner.entries(start):
        record = Record(value, path, scanner.line(at), key)
        if not doubtful or _is_unicode(record, problems):
            yield record


def read_jsonl_records(path: Path, problems: Problems) -> Iterator[Record]:
    """Read the values of a JSON Lines file; blank lines are skipped."""
    text = read_text(path, problems)
    decode = json.JSONDecoder(object_pairs_hook=unique_keys).raw_decode
    doubtful = may_hold_surrogates(text)
    at = number = position = 0
    while at < len(text):
        start, number = at, number + 1
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        at = end + 1
        try:
            value, behind = decode(text, start)
        except (ValueError, RecursionError):
            behind = at
        if behind != end and text[behind:end] != "\r":
            # Spaces, a fault, or a value that goes on in the next line.
            line = text[start:end].strip()
            if not line:
                continue
            try:
                value = parse_json(line)
            except (ValueError, RecursionError) as error:
                complete = isinstance(error, DoubledKeyError | SurrogateError)
                cut = "" if complete else "; is the line cut off?"
                message = f"is not valid JSON ({describe_json_error(error)}){cut or '.'}"
                problems.report(Problem("malformed record", message, path, number))
                position += 1
                continue
        record = Record(value, path, number, str(position))
        if not doubtful or _is_unicode(record, problems):
            yield record
        position += 1


def _is_unicode(record: Record, problems: Problems) -> bool:
    """Whether all texts of a record are valid Unicode; if not, it is reported as a problem."""
    try:
        require_unicode([record.key, record.value])
    except ValueError as error:
        message = f"record {printable(record.key)}: {error}."
        problems.report(Problem("malformed record", message, record.file, record.line))
        return False
    return True


def read_csv_records(path: Path, problems: Problems, delimiter: str = ",") -> Iterator[Record]:
    """Read the rows of a CSV file as dictionaries of text, by the header's names."""
    # StringIO ends lines as CSV does; str.splitlines would also cut a cell at U+2028 or U+0085.
    reader = csv.reader(io.StringIO(read_text(path, problems), newline=""), delimiter=delimiter)
    try:
        header = next(reader, None)
        if header is None:
            raise InputError("is empty.", file=path)
        twice = next((name for name in header if name and header.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"has two columns named {twice!r}.", file=path, line=1)
        start = reader.line_num + 1
        for position, row in enumerate(reader):
            if row and len(row) != len(header):
                message = (
                    f"has {len(row)} fields where the header has {len(header)}; "
                    "is the line cut off?"
                )
                problems.report(Problem("malformed record", message, path, start))
            elif row:
                yield Record(dict(zip(header, row, strict=True)), path, start, str(position))
            start = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"is not valid CSV ({error}).", file=path, line=reader.line_num) from None


MOST_UNPACKED = 200
"""Bytes that one byte of a Parquet file may unpack to, as of an archive."""

MOST_ROWS = 16
"""Rows that one byte of a Parquet file may hold; rows with an id take more than a byte."""

LEAST_UNPACKED, LEAST_ROWS = 64 << 20, 1 << 20
"""Bytes and rows that any Parquet file may unpack to, however small it is."""


def require_parquet_size(file: Any, path: Path) -> None:
    """Refuse an open Parquet file that promises far more than its size.

    Raises:
        InputError: it would unpack to gigabytes.
    """
    size, metadata = path.stat().st_size, file.metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    unpacked = sum(max(0, group.total_byte_size) for group in groups)
    most, rows = max(size * MOST_UNPACKED, LEAST_UNPACKED), max(size * MOST_ROWS, LEAST_ROWS)
    if unpacked > most or metadata.num_rows > rows:
        raise InputError(
            f"would unpack {size:,} bytes to {unpacked:,} and {metadata.num_rows:,} rows.",
            file=path,
        )


def read_parquet_records(path: Path, columns: Sequence[str] | None = None) -> Iterator[Record]:
    """Read the rows of a Parquet file as dictionaries, batch by batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_regular(path)
    row = 0
    try:
        with pq.ParquetFile(arrow_path(path)) as file:
            require_parquet_size(file, path)
            for batch in file.iter_batches(columns=columns):
                for value in batch.to_pylist():
                    yield Record(value, path, row + 1, str(row))
                    row += 1
    except FileNotFoundError:
        raise InputError("does not exist.", file=path) from None
    except UnicodeDecodeError:
        raise InputError("holds text that is not UTF-8.", file=path, line=row + 1) from None
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise InputError(
            f"is not a readable Parquet file ({first_line(error).rstrip('.')}).", file=path
        ) from None


def read_table_records(path: Path, problems: Problems) -> Iterator[Record]:
    """Read the rows of a JSONL, CSV, TSV or Parquet file, by its suffix."""
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return read_jsonl_records(path, problems)
    if suffix in (".csv", ".tsv"):
        return read_csv_records(path, problems, "\t" if suffix == ".tsv" else ",")
    if suffix == ".parquet":
        return read_parquet_records(path)
    raise InputError("must end in .jsonl, .csv, .tsv or .parquet.", file=path)


def _describe_kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return "text" if value.strip() else "empty text"
    names = {dict: "an object", list: "a list", bool: "true or false"}
    return names.get(
        type(value), "a number" if isinstance(value, int | float) else "something else"
    )


LONGEST_VALUE = 60
"""Characters of a value that an error shows."""


def _describe_value(value: Any) -> str:
    if not isinstance(value, int | float | str):
        return _describe_kind(value)
    words = repr(value)
    return words if len(words) <= LONGEST_VALUE else f"{words[: LONGEST_VALUE - 1]}…"


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Let garbage collection inside the block look at new objects only.

    A collection that goes through all objects of a program with PyTorch takes a third of a second.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable garbage collection inside the block, where many small objects are created.

    After it they count as old, so that the next collection does not go through all of them.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
