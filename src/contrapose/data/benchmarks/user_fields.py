"""Fields of a record of a user's file, read one by one: lists, texts, matches and tags.

A fault is said with the record that it is in.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any

from contrapose.data.examples import Match, TagValue, single_match
from contrapose.files import DoubledKeyError, MalformedError, Record, parse_json

NEGATIVE_COLUMN = re.compile(r"negatives?(?:_(\d+))?")
"""Fields with negatives of a caption."""

LABELS = {"true": True, "false": False, "1": True, "0": False}
"""Words of the field `label`."""


def negative_columns(names: Iterable[str]) -> list[str]:
    """Names of fields with negatives, by their numbers; those without one are first."""
    matches = [match for name in names if (match := NEGATIVE_COLUMN.fullmatch(name))]
    return [match[0] for match in sorted(matches, key=lambda match: int(match[1] or -1))]


def read_list(record: Record, several: str, one: str) -> list[Any]:
    """Read values of a list field, a single field, or numbered fields until one is empty."""
    fields: Mapping[str, Any] = record.value
    if fields.get(several) not in (None, ""):
        values = parse_structure(record, several)
        if not isinstance(values, list):
            raise MalformedError(f"record {record.key}: {several!r} must be a list.")
        return values
    if fields.get(one) not in (None, ""):
        return [fields[one]]
    numbered = [fields.get(f"{one}_{i}") for i in range(len(fields))]
    return numbered[: next((i for i, v in enumerate(numbered) if v in (None, "")), None)]


def read_texts(record: Record, several: str, one: str) -> list[str]:
    """Read texts from a list field, a single field, or numbered fields until one is empty."""
    values = read_list(record, several, one)
    for value in values:
        if not isinstance(value, str) or not value.strip():
            raise MalformedError(f"record {record.key}: {several!r} must be texts, and none empty.")
    return values


def read_match(record: Record, images: int, texts: int) -> Match:
    """Read which captions belong to which image: `match`, `label` or `right`.

    Raises:
        MalformedError: it is not said, or not for so many images and captions.
    """
    if record.value.get("match") not in (None, ""):
        rows = parse_structure(record, "match")
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise MalformedError(
                f"record {record.key}: 'match' must be a list of rows, one an image."
            )
        if not all(value in (True, False) for row in rows for value in row):
            raise MalformedError(f"record {record.key}: 'match' must hold true and false.")
        if not any(any(row) for row in rows) and (images, texts) != (1, 1):
            raise MalformedError(f"record {record.key}: no image of 'match' belongs to a caption.")
        return tuple(tuple(bool(value) for value in row) for row in rows)
    label = record.value.get("label")
    if (images, texts) == (1, 1) and label not in (None, ""):
        if str(label).strip().lower() not in LABELS:
            raise MalformedError(f"record {record.key}: 'label' must be true or false.")
        return ((LABELS[str(label).strip().lower()],),)
    if record.value.get("right") in (None, "") or images != 1:
        raise MalformedError(
            f"record {record.key}: which captions fit? 'match' is missing"
            + (", and so is 'right'." if images == 1 else ".")
        )
    right = record.integer("right")
    if not 0 <= right < texts:
        raise MalformedError(
            f"record {record.key}: 'right' is {right}, and there are {texts} captions, from 0."
        )
    return single_match(texts, right)


def read_tags(record: Record) -> dict[str, TagValue]:
    """Read the tags of a record: those in `tags`, and fields `tag_…`."""
    tags: dict[str, Any] = {
        name.removeprefix("tag_"): value
        for name, value in record.value.items()
        if name.startswith("tag_")
    }
    if record.value.get("tags") not in (None, ""):
        given = parse_structure(record, "tags")
        if not _is_map(given):
            raise MalformedError(f"record {record.key}: 'tags' must be an object: name → value.")
        tags |= dict(given)
    return {name: _read_tag(record, name, v) for name, v in tags.items() if v not in (None, "", [])}


def _is_map(value: Any) -> bool:
    """Whether a value is an object, or a Parquet map column's list of pairs."""
    return isinstance(value, dict) or (
        isinstance(value, list)
        and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    )


def _read_tag(record: Record, name: str, value: Any) -> TagValue:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if not isinstance(value, str | int | float):
        raise MalformedError(
            f"record {record.key}: the tag {name!r} must be text or a list of texts."
        )
    return str(value)


def parse_structure(record: Record, name: str) -> Any:
    """Parse a field that is JSON, or a Python literal as pandas writes lists."""
    value = record.value[name]
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value)
    except DoubledKeyError as error:
        raise MalformedError(f"record {record.key}: in {name!r} {error}.") from None
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        raise MalformedError(
            f"record {record.key}: {name!r} must be a list or an object, as JSON; "
            f"found {value[:40]!r}."
        ) from None
