"""Records of JSON, JSONL, CSV and Parquet files, each with the line it stands on."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from contrapose.errors import InputError
from contrapose.files.problems import Malformed, Problem, Problems, Strict

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
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
        except ValueError:
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
    problems = problems or Strict()
    text = _decode(path, problems)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"is not valid JSON ({error.msg}).", file=path, line=error.lineno
        ) from None


def json_records(path: Path, problems: Problems) -> Iterator[Record]:
    """The entries of a JSON list, or the values of a JSON object, one by one with their lines."""
    text = _decode(path, problems)
    decoder = json.JSONDecoder()
    seen, lines = 0, 1

    def line(at: int) -> int:
        nonlocal seen, lines
        lines += text.count("\n", seen, at) - text.count("\n", at, seen)
        seen = at
        return lines

    def skip(at: int) -> int:
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
        return at

    def value(at: int) -> tuple[Any, int]:
        try:
            return decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise InputError(
                f"is not valid JSON ({error.msg}).", file=path, line=error.lineno
            ) from None

    at = skip(0)
    opening = text[at : at + 1]
    if opening not in ("[", "{"):
        what = "is empty" if not opening else "must hold a JSON list or object"
        raise InputError(f"{what}.", file=path, line=None if not opening else line(at))
    closing = "]" if opening == "[" else "}"
    at, position = skip(at + 1), 0
    while text[at : at + 1] != closing:
        start, key = at, str(position)
        if opening == "{":
            key, at = value(at)
            at = skip(at)
            if not isinstance(key, str) or text[at : at + 1] != ":":
                raise InputError("is not valid JSON (expected a key).", file=path, line=line(start))
            at = skip(at + 1)
        entry, at = value(at)
        yield Record(entry, path, line(start), key)
        position += 1
        at = skip(at)
        if text[at : at + 1] == ",":
            at = skip(at + 1)
        elif text[at : at + 1] != closing:
            what = "it ends in the middle" if at >= len(text) else "expected ','"
            raise InputError(f"is not valid JSON ({what}).", file=path, line=line(at))
    if skip(at + 1) < len(text):
        raise InputError("is not valid JSON (extra data).", file=path, line=line(skip(at + 1)))


def jsonl_records(path: Path, problems: Problems) -> Iterator[Record]:
    """The values of a JSON-lines file; blank lines are passed over."""
    position = 0
    for number, line in enumerate(_decode(path, problems).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            message = f"is not valid JSON ({error.msg}); is the line cut off?"
            problems.report(Problem("malformed record", message, path, number))
        else:
            yield Record(value, path, number, str(position))
        position += 1


def csv_records(path: Path, problems: Problems, delimiter: str = ",") -> Iterator[Record]:
    """The rows of a CSV file as objects of text, by the names in its first line."""
    lines = _decode(path, problems).splitlines(keepends=True)
    reader = csv.reader(lines, delimiter=delimiter)
    header = next(reader, None)
    if header is None:
        raise InputError("is empty.", file=path)
    start = reader.line_num + 1
    for position, row in enumerate(reader):
        if row and len(row) != len(header):
            message = (
                f"has {len(row)} fields where the header has {len(header)}; is the line cut off?"
            )
            problems.report(Problem("malformed record", message, path, start))
        elif row:
            yield Record(dict(zip(header, row, strict=True)), path, start, str(position))
        start = reader.line_num + 1


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
    except (pa.ArrowInvalid, pa.ArrowException) as error:
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


def _decode(path: Path, problems: Problems) -> str:
    """A file's text as UTF-8; bytes that are not are a problem, with the line they stand on."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError("does not exist.", file=path) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", file=path) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problems.report(Problem("not UTF-8", "holds bytes that are not UTF-8.", path, line))
        return content.decode("utf-8-sig", errors="replace")


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
