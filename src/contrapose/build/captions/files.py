"""Readers of caption files: tables, plain text, COCO or Karpathy annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from contrapose.build.captions.pairs import (
    CaptionRecord,
)
from contrapose.errors import InputError
from contrapose.files import (
    MalformedError,
    Record,
    StrictProblems,
    parse_records,
    read_json,
    read_lines,
    read_table_records,
)

CAPTION_FIELDS = ("caption", "captions", "text", "sentence", "sentences", "true_caption")
IMAGE_FIELDS = ("image", "image_path", "file_name", "filename", "filepath", "image_id")
TABLE_SUFFIXES = frozenset((".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"))


def read_captions(
    path: Path, *, caption_field: str | None = None, image_field: str | None = None
) -> Iterator[CaptionRecord]:
    """Read the captions of a file, in its order.

    A table (JSONL, CSV, TSV, Parquet) has a column with the caption, or a list of captions, and may
    have one with the image. Text has one caption per line. JSON is COCO's annotations, Karpathy's
    splits, or a list of captions or of records as in a table.

    Args:
        path: the file.
        caption_field: the column of the caption, where it has an unusual name.
        image_field: the column of the image.

    Raises:
        InputError: the file cannot be read, or a record has no caption.
    """
    suffix = path.suffix.lower()
    if suffix in TABLE_SUFFIXES:
        return _read_rows(read_table_records(path, StrictProblems()), caption_field, image_field)
    if suffix in (".txt", ""):
        return (CaptionRecord(line) for _, line in read_lines(path, StrictProblems()))
    if suffix != ".json":
        raise InputError(
            "must be a .jsonl, .csv, .tsv, .parquet, .txt or .json file of captions.", file=path
        )
    value = read_json(path)
    if isinstance(value, dict) and isinstance(value.get("annotations"), list):
        return _read_coco(path, value)
    if isinstance(value, dict) and isinstance(value.get("images"), list):
        return _read_karpathy(path, value["images"])
    entries = value.items() if isinstance(value, dict) else enumerate(_require_list(path, value))
    records = (Record(entry, path, 0, str(key)) for key, entry in entries)
    return _read_rows(records, caption_field, image_field)


def _require_list(path: Path, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InputError("must hold a list of captions or records.", file=path)
    return value


def _read_rows(
    records: Iterable[Record], caption_field: str | None, image_field: str | None
) -> Iterator[CaptionRecord]:
    def build(record: Record) -> list[CaptionRecord]:
        if isinstance(record.value, str):
            return [CaptionRecord(record.value)]
        name = caption_field or next(
            (name for name in CAPTION_FIELDS if _has_field(record, name)), CAPTION_FIELDS[0]
        )
        image = image_field or next((one for one in IMAGE_FIELDS if _has_field(record, one)), None)
        shown = None if image is None else record.name(image)
        value = record.field(name)
        texts = value if isinstance(value, list) else [value]
        return [CaptionRecord(_caption_text(record, name, text), shown) for text in texts]

    for rows in parse_records(_drop_line_zero(records), build, StrictProblems()):
        yield from rows


def _drop_line_zero(records: Iterable[Record]) -> Iterator[Record]:
    """Remove the line number 0 of records from JSON files."""
    for record in records:
        record.line = record.line or None  # type: ignore[assignment]
        yield record


def _has_field(record: Record, name: str) -> bool:
    return isinstance(record.value, dict) and record.value.get(name) not in (None, "")


def _caption_text(record: Record, name: str, text: Any) -> str:
    """Text of a caption, or of one in a list; Karpathy's have it under `raw`."""
    text = text.get("raw") if isinstance(text, dict) else text
    if text is None or (isinstance(text, str) and not text.strip()):
        return ""
    return Record({name: text}, record.file, record.line, record.key).text(name)


def _read_coco(path: Path, value: Mapping[str, Any]) -> Iterator[CaptionRecord]:
    images = value.get("images")
    images = images if isinstance(images, list) else []
    names = {
        image.get("id"): str(image["file_name"])
        for image in images if isinstance(image, dict) and "file_name" in image
        if isinstance(image.get("id"), int | str)
    }  # fmt: skip

    def build(record: Record) -> CaptionRecord:
        number = record.field("image_id")
        if not isinstance(number, int | str | None):
            raise MalformedError(f"record {record.key}: 'image_id' must be a number or a name.")
        if names and number not in names:
            raise MalformedError(f"record {record.key}: there is no image {number!r} in the file.")
        image = names.get(number, None if number is None else str(number))
        return CaptionRecord(_caption_text(record, "caption", record.field("caption")), image)

    records = (Record(entry, path, 0, str(i)) for i, entry in enumerate(value["annotations"]))
    return parse_records(_drop_line_zero(records), build, StrictProblems())


def _read_karpathy(path: Path, images: list[Any]) -> Iterator[CaptionRecord]:
    def build(record: Record) -> list[CaptionRecord]:
        folder = record.value.get("filepath") if isinstance(record.value, dict) else None
        name = record.name("filename")
        sentences = record.field("sentences")
        if not isinstance(sentences, list):
            raise MalformedError(f"record {record.key}: 'sentences' must be a list.")
        image = f"{folder}/{name}" if folder else name
        return [
            CaptionRecord(_caption_text(record, "sentences", entry), image) for entry in sentences
        ]

    records = (Record(entry, path, 0, str(i)) for i, entry in enumerate(images))
    for rows in parse_records(_drop_line_zero(records), build, StrictProblems()):
        yield from rows
