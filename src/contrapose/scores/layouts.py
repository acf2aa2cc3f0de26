"""Layouts of score files: how each is recognized by its first row, and how its rows are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from contrapose.files import MalformedError, Problems, Record, parse_records
from contrapose.scores.rows import (
    VALSE_LABEL,
    WINOGROUND_COLUMNS,
    WINOGROUND_LABEL,
    WINOGROUND_TEXT_LABEL,
    ScoreRow,
    parse_general_rows,
    parse_valse_rows,
    parse_winoground_rows,
)

LABELS = {"0": False, "1": True, "false": False, "true": True}


def is_label(value: object) -> bool:
    """Whether a value says that image and caption belong together, or that they do not."""
    return isinstance(value, str | int) and str(value).strip().lower() in LABELS


def parse_judgement_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Parse rows `{"id", "label", "score", "relation"}` with the label 0 or 1; one pair each.

    Without an id, rows count from 0.
    """

    def build(record: Record) -> ScoreRow:
        label = record.field("label")
        if not is_label(label):
            raise MalformedError(f"record {record.key}: 'label' must be 0 or 1.")
        example = record.name("id") if "id" in record.value else record.key
        tags = (("relation", record.text("relation")),) if record.value.get("relation") else ()
        return ScoreRow(
            example,
            None,
            None,
            record.number("score"),
            record.line,
            tags,
            LABELS[str(label).strip().lower()],
        )

    return list(parse_records(records, build, problems))


PREDICATE_NOUN_COLUMNS = ("prob_target_match", "prob_distractor_match")


def parse_predicate_noun_rows(records: Iterable[Record], problems: Problems) -> list[ScoreRow]:
    """Parse rows `{"id", "prob_target_match", "prob_distractor_match"}`, one for each image.

    Rows 2n and 2n + 1 are example n: the right sentence of one is the wrong sentence of the other.
    """

    def build(record: Record) -> list[ScoreRow]:
        number = record.integer("id")
        if number < 0:
            raise MalformedError(f"record {record.key}: 'id' must not be negative.")
        image = number % 2
        tags = (("pos", record.text("pos")),) if record.value.get("pos") else ()
        return [
            ScoreRow(str(number // 2), image, text, record.number(name), record.line, tags)
            for name, text in zip(PREDICATE_NOUN_COLUMNS, (image, 1 - image), strict=True)
        ]

    return [row for rows in parse_records(records, build, problems) for row in rows]


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a score file.

    Attributes:
        title: in words.
        fits: whether a row, as a dictionary, has this layout.
        parse: from the records to score rows.
        benchmark: the benchmark that a row of it belongs to; None where the row does not tell.
    """

    title: str
    fits: Callable[[Mapping[str, Any]], bool]
    parse: Callable[[Iterable[Record], Problems], list[ScoreRow]]
    benchmark: Callable[[Mapping[str, Any]], str | None] = lambda row: None


def _is_winoground(row: Mapping[str, Any]) -> bool:
    label = str(row.get("label", ""))
    return WINOGROUND_COLUMNS[0] in row or any(
        pattern.fullmatch(label) for pattern in (WINOGROUND_LABEL, WINOGROUND_TEXT_LABEL)
    )


LAYOUTS = {
    "general": Layout(
        "a general table (example, image, text, score)",
        lambda row: "example" in row,
        parse_general_rows,
    ),
    "winoground": Layout(
        "Winoground score rows", _is_winoground, parse_winoground_rows, lambda row: "winoground"
    ),
    "valse": Layout(
        "VALSE score rows",
        lambda row: VALSE_LABEL.fullmatch(str(row.get("label", ""))) is not None,
        parse_valse_rows,
        lambda row: "valse",
    ),
    "predicate-noun": Layout(
        "rows of predicate-noun pairs (id, prob_target_match, …)",
        lambda row: PREDICATE_NOUN_COLUMNS[0] in row,
        parse_predicate_noun_rows,
        lambda row: "predicate-noun",
    ),
    "judgement": Layout(
        "rows with a label of 0 or 1 (id, label, score)",
        lambda row: is_label(row.get("label")) and "score" in row,
        parse_judgement_rows,
        lambda row: "vsr" if "relation" in row else None,
    ),
}
"""Layouts by name, in the order in which they are tried."""


def detect_layout(record: Record) -> str | None:
    """Name of the layout of a file by its first record; None for none."""
    row = record.value
    if not isinstance(row, dict):
        return None
    return next((name for name, layout in LAYOUTS.items() if layout.fits(row)), None)
