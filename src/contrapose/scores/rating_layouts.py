"""Layouts of score files with people's ratings, and with several scores for each example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from contrapose.errors import InputError
from contrapose.files import Problems, Record, did_you_mean, parse_records
from contrapose.scores.rows import ScoreRow

RATING_FIELDS = ("human_scores", "ratings", "human_avg", "rating")
RATED_FIELDS = {*RATING_FIELDS, "raters", "id", "image", "image_path", "text_id", "text", "prompt",
                "generator", "source"}  # fmt: skip
"""Fields of rated examples that are no scores."""


def score_columns(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the scores in a row that holds ratings and one or several scores."""
    return tuple(
        name
        for name, value in row.items()
        if name not in RATED_FIELDS and not isinstance(value, bool) and _is_number(value)
    )


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def split_column(path: Path) -> tuple[Path, str | None]:
    """Split `FILE@COLUMN`, one of several scores in a file; None where the path names none."""
    file, mark, column = str(path).rpartition("@")
    if not mark or not column or path.exists() or not Path(file).is_file():
        return path, None
    return Path(file), column


def parse_rating_rows(
    records: Iterable[Record], problems: Problems, column: str | None = None
) -> list[ScoreRow]:
    """Parse rows `{"id", "rating", "score"}`, or TIFA160's with the scores of several metrics.

    Args:
        records: the rows; without an id the key is the example.
        problems: takes malformed rows.
        column: which of the scores; None takes the only one.

    Raises:
        InputError: there are several scores and none is named, or it is not there.
    """
    rows = list(records)
    first = rows[0]
    columns = score_columns(first.value) if isinstance(first.value, dict) else ()
    if column is None and len(columns) == 1:
        column = columns[0]
    if column is None or column not in columns:
        listed = ", ".join(columns) or "none"
        message = f"holds scores of {listed}: name one, as in {first.file.name}@SCORE."
        if column is not None:
            message = f"has no score {column!r}: {did_you_mean(column, columns)}"
        raise InputError(message, file=first.file, line=first.line)
    name = column
    from contrapose.data.benchmarks.ratings import read_rating_tags

    def build(record: Record) -> ScoreRow:
        tags = tuple(read_rating_tags(record).items())
        example = record.name("id") if "id" in record.value else record.key
        return ScoreRow(example, None, None, record.number(name), record.line, tags, True)

    return list(parse_records(rows, build, problems))
