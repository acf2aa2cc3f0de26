"""Score rows as the benchmarks' own tools write them: a label names example, caption, image."""

from __future__ import annotations

import re
from collections.abc import Iterable

from contrapose.data import TagValue
from contrapose.files import Malformed, Problems, Record, parse
from contrapose.scoring.rows import ScoreRow

WINOGROUND = re.compile(r"(?P<id>\d+)_c(?P<caption>[01])_i(?P<image>[01])")
WINOGROUND_TEXT = re.compile(r"(?P<id>\d+)_c(?P<caption>[01])")
WINOGROUND_WIDE = ("c0_i0", "c0_i1", "c1_i0", "c1_i1")
VALSE = re.compile(r"(?P<id>\d+)_(?P<role>[cf])")


def winoground_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Rows `{"label": "<id>_c<caption>_i<image>", "score"}`, or `{"id", "c0_i0", …}`.

    A prior has no image: `{"label": "<id>_c<caption>", "score"}`.
    """

    def build(record: Record) -> list[ScoreRow]:
        if isinstance(record.value, dict) and WINOGROUND_WIDE[0] in record.value:
            return [
                ScoreRow(
                    record.name("id"), int(name[4]), int(name[1]), record.number(name), record.line
                )
                for name in WINOGROUND_WIDE
            ]
        label = record.name("label")
        found = WINOGROUND.fullmatch(label)
        text_only = WINOGROUND_TEXT.fullmatch(label)
        if found is not None:
            image, caption = int(found["image"]), int(found["caption"])
            return [ScoreRow(found["id"], image, caption, record.number("score"), record.line)]
        if text_only is not None:
            score = record.number("score")
            return [ScoreRow(text_only["id"], None, int(text_only["caption"]), score, record.line)]
        raise Malformed(f"the label {label!r} is not of Winoground's form '<id>_c<0|1>_i<0|1>'.")

    return [row for rows in parse(records, build, problems) for row in rows]


def valse_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Rows `{"label": "<n>_c" or "<n>_f", "score", "instrument", "piece"}`."""

    def build(record: Record) -> ScoreRow:
        label = record.name("label")
        found = VALSE.fullmatch(label)
        if found is None:
            raise Malformed(f"the label {label!r} is not of VALSE's form '<n>_c' or '<n>_f'.")
        tags: list[tuple[str, TagValue]] = []
        for tag, field in (("subset", "instrument"), ("phenomenon", "piece")):
            if record.value.get(field):
                tags.append((tag, record.text(field)))
        text = 0 if found["role"] == "c" else 1
        return ScoreRow(found["id"], None, text, record.number("score"), record.line, tuple(tags))

    return list(parse(records, build, problems))


def general_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Rows `example, image, text, score`; image or text may be left out where there is one.

    In a run folder's table the number is called `value`, and `score` is what was asked.
    """

    def position(record: Record, field: str) -> int | str | None:
        value = record.value.get(field)
        if value is None or value == "":
            return None
        if isinstance(value, bool):
            raise Malformed(f"record {record.key}: {field!r} must be a position or a name.")
        if isinstance(value, int):
            return value
        if isinstance(value, float):
            return record.integer(field)
        name = record.text(field)
        return int(name) if name.strip().isdecimal() else name

    def build(record: Record) -> ScoreRow:
        example = record.name("example")
        score = record.number("value" if "value" in record.value else "score")
        return ScoreRow(
            example, position(record, "image"), position(record, "text"), score, record.line
        )

    return list(parse(records, build, problems))
