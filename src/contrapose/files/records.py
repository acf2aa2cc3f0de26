"""Records of JSON, JSONL, CSV and Parquet files, each with the line it stands on."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from contrapose.errors import InputError
from contrapose.files.jsonscan import JsonScanner, json_fault
from contrapose.files.problems import Malformed, Problem, Problems, Strict
from contrapose.files.text import is_whole, read_text

T = TypeVar("T")


@dataclass(slots=True)
class Record:
    """One entry of a file.

    Attributes:
        value: what stands there, as JSON values.
        file: the file it comes from.
        line: the line it starts on (CSV, JSON, JSONL) or its row (Parquet), from 1.
        key: its key when the file is one JSON object, its position from 0 when it is a list.
    """

    value: Any
    file: Path
    line: int
    key: str

    def field(self, name: str) -> Any:
        """The value of a field that must be there."""
        if not isinstance(self.value, dict):
            raise Malformed(
                f"record {self.key}: expected an object with fields, found {_kind(self.value)}."
            )
        if name not in self.value:
            raise Malformed(f"record {self.key}: the field {name!r} is missing.")
        return self.value[name]

    def text(self, name: str) -> str:
        """A field that must hold text with something in it."""
        value = self.field(name)
        if not isinstance(value, str) or not value.strip():
            raise Malformed(f"record {self.key}: {name!r} must be text, found {_kind(value)}.")
        if not is_whole(value):
            raise Malformed(f"record {self.key}: {name!r} holds half of a surrogate pair.")
        return value

    def name(self, name: str) -> str:
        """A field that identifies something: text, or a whole number taken as text."""
        value = self.field(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.text(name)

    def number(self, name: str) -> float:
        """A field that must hold a finite number; CSV's text numbers count."""
        value = self.field(name)
        try:
            number = float(value) if isinstance(value, int | float | str) else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number) or isinstance(value, bool):
            raise Malformed(
                f"record {self.key}: {name!r} must be a finite number, found {_shown(value)}."
            )
        return number

    def integer(self, name: str) -> int:
        """A field that must hold a whole number."""
        number = self.number(name)
        if number != int(number):
            raise Malformed(f"record {self.key}: {name!r} must be a whole number, found {number}.")
        return int(number)


def parse(
    records: Iterable[Record], build: Callable[[Record], T], problems: Problems
) -> Iterator[T]:
    """Build a value from each record; those that are malformed become problems with a place."""
    for record in records:
        try:
            built = build(record)
        except Malformed as error:
            problems.report(Problem("malformed record", str(error), record.file, record.line))
        else:
            yield built


def read_json(path: Path, problems: Problems | None = None) -> Any:
    """The value of a whole JSON file."""
    text = read_text(path, problems or Strict())
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        message = f"is not valid JSON ({json_fault(error)})."
        raise InputError(message, file=path, line=line) from None


def json_records(path: Path, problems: Problems, under: str | None = None) -> Iterator[Record]:
    """The entries of a JSON list, or the values of a JSON object, one by one with their lines.

    Args:
        path: the file.
        problems: where bytes that are not UTF-8 are reported.
        under: the key of the outermost object whose entries are meant, instead of its own.
    """
    scanner = JsonScanner(read_text(path, problems), path)
    start = 0 if under is None else scanner.find(under)
    for key, at, value in scanner.entries(start):
        yield Record(value, path, scanner.line(at), key)


def jsonl_records(path: Path, problems: Problems) -> Iterator[Record]:
    """The values of a JSON-lines file; blank lines are passed over."""
    text = read_text(path, problems)
    decode = json.JSONDecoder().raw_decode
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
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                message = f"is not valid JSON ({json_fault(error)}); is the line cut off?"
                problems.report(Problem("malformed record", message, path, number))
                position += 1
                continue
        yield Record(value, path, number, str(position))
        position += 1


def csv_records(path: Path, problems: Problems, delimiter: str = ",") -> Iterator[Record]:
    """The rows of a CSV file as objects of text, by the names in its first line."""
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


def parquet_records(path: Path, columns: Sequence[str] | None = None) -> Iterator[Record]:
    """The rows of a Parquet file as objects, read a batch at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            row = 0
            for batch in file.iter_batches(columns=columns):
                for value in batch.to_pylist():
                    yield Record(value, path, row + 1, str(row))
                    row += 1
    except FileNotFoundError:
        raise InputError("does not exist.", file=path) from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"is not a readable Parquet file ({_first(error)}).", file=path) from None


def table_records(path: Path, problems: Problems) -> Iterator[Record]:
    """The rows of a JSONL, CSV, TSV or Parquet file, by its suffix."""
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return jsonl_records(path, problems)
    if suffix in (".csv", ".tsv"):
        return csv_records(path, problems, "\t" if suffix == ".tsv" else ",")
    if suffix == ".parquet":
        return parquet_records(path)
    raise InputError("must end in .jsonl, .csv, .tsv or .parquet.", file=path)


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return "text" if value.strip() else "empty text"
    names = {dict: "an object", list: "a list", bool: "true or false"}
    return names.get(
        type(value), "a number" if isinstance(value, int | float) else "something else"
    )


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, int | float | str) else _kind(value)


def _first(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")
