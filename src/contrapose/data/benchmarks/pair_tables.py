"""Tables of 2 × 2 examples: Parquet files with images inside, or JSON rows that name files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from contrapose.data.benchmarks.common import require_folder
from contrapose.data.examples import Example, TagValue, diagonal_match
from contrapose.data.images import Cell, ImageRef
from contrapose.errors import InputError
from contrapose.files import (
    Problems,
    Record,
    parse_records,
    read_json_records,
    read_jsonl_records,
    read_parquet_records,
    safe_join,
)


@dataclass(frozen=True, slots=True)
class PairColumns:
    """Columns of a table of 2 × 2 examples.

    Attributes:
        images: columns of the two images.
        texts: columns of the two captions, in the order of the images.
        id: column of the id; empty where rows count from 0.
        tags: tag → column.
    """

    images: tuple[str, str]
    texts: tuple[str, str]
    id: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


def read_pair_tables(
    root: Path, problems: Problems, columns: PairColumns, stem: str = "*"
) -> Iterator[Example]:
    """Read the tables of a folder, or of `data` below it, in the order of their names.

    Args:
        root: the folder.
        problems: takes malformed rows.
        columns: the names of the columns.
        stem: pattern of the files' names, without suffix; Parquet goes before JSON.

    Raises:
        InputError: there is no such file.
    """
    require_folder(root)
    for suffix in (".parquet", ".jsonl", ".json"):
        files = [
            file
            for folder in (root, root / "data")
            for file in sorted(folder.glob(f"{stem}{suffix}"))
        ]
        if files:
            break
    else:
        raise InputError(f"holds no {stem}.parquet, .jsonl or .json file.", file=root)
    rows = 0
    for file in files:
        size = 0

        def build(record: Record, first: int = rows) -> Example:
            return _build_example(record, root, columns, first)

        for record in _read_rows(file, problems, columns):
            size += 1
            yield from parse_records([record], build, problems)
        rows += size


def _read_rows(file: Path, problems: Problems, columns: PairColumns) -> Iterator[Record]:
    if file.suffix == ".parquet":
        wanted = [*columns.texts, *columns.tags.values(), *([columns.id] if columns.id else [])]
        return read_parquet_records(file, wanted)
    read = read_jsonl_records if file.suffix == ".jsonl" else read_json_records
    return read(file, problems)


def _build_example(record: Record, root: Path, columns: PairColumns, first: int) -> Example:
    parquet = record.file.suffix == ".parquet"
    row = record.line - 1 if parquet else 0
    position = str(first + row) if parquet else record.key
    name = record.name(columns.id) if columns.id else position
    texts = tuple(record.text(column) for column in columns.texts)
    if parquet:
        images = tuple(
            ImageRef(f"{name}/{column}", record.file, cell=Cell(column, row))
            for column in columns.images
        )
    else:
        files = [record.text(column) for column in columns.images]
        images = tuple(ImageRef(file, safe_join(root, file)) for file in files)
    tags: dict[str, TagValue] = {
        tag: str(record.value[column])
        for tag, column in columns.tags.items()
        if record.value.get(column) not in (None, "")
    }
    return Example(name, images, texts, diagonal_match(2), tags)
