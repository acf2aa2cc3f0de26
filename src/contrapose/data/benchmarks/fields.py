"""Fields that records of several benchmarks share: a caption that may be listed, and a box."""

from __future__ import annotations

from dataclasses import replace

from contrapose.data.images import Box
from contrapose.files import Malformed, Record


def first_text(record: Record, name: str) -> str:
    """A field that holds text, or a list whose first entry is the text that is used."""
    value = record.field(name)
    if isinstance(value, list) and value:
        record = replace(record, value={name: value[0]})
    return record.text(name)


def box(record: Record, x: str, y: str, width: str, height: str) -> Box:
    """The part of the image that the benchmark shows, from four whole-number fields."""
    left, top = record.integer(x), record.integer(y)
    across, down = record.integer(width), record.integer(height)
    if across < 1 or down < 1:
        raise Malformed(f"record {record.key}: the box of {across} × {down} pixels is empty.")
    return left, top, across, down
