"""Outcome tables: which single choices of 2 × 2 examples were right, without the scores (BiVLC)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from contrapose.data import Card, TagValue
from contrapose.errors import InputError, option
from contrapose.files import (
    MalformedError,
    Record,
    StrictProblems,
    parse_records,
    read_table_records,
)
from contrapose.metrics import BoolArray
from contrapose.scores.layouts import OUTCOME_COLUMNS

TAGS = ("type", "subtype")
SUMS = {"text_score": (0, 1), "image_score": (2, 3), "group_score": (0, 1, 2, 3)}
BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceOutcomes:
    """Outcomes of the single choices of k examples.

    Attributes:
        ids: of the examples.
        tags: for each tag its value for each example.
        text: (k, images) whether an image's right caption won.
        image: (k, captions) whether a caption's right image won.
        notes: remarks for the reader of the results.
    """

    ids: tuple[str, ...]
    tags: Mapping[str, tuple[TagValue, ...]]
    text: BoolArray
    image: BoolArray
    notes: tuple[str, ...] = ()


def read_outcomes(path: object, card: Card, *, partial: bool) -> ChoiceOutcomes | None:
    """Read an outcome table; None where the scores are something else.

    Raises:
        InputError: a value is neither true nor false, a sum disagrees with its parts, or the
            number of examples is not the benchmark's.
    """
    if card.scores != "bivlc" or not isinstance(path, Path) or not path.is_file():
        return None
    if path.suffix.lower() not in (".csv", ".tsv", ".jsonl", ".parquet"):
        return None
    problems = StrictProblems()
    records = read_table_records(path, problems)
    first = next(records, None)
    if first is None or not isinstance(first.value, dict) or OUTCOME_COLUMNS[0] not in first.value:
        return None
    rows = list(parse_records(chain((first,), records), _read_row, problems))
    total = sum(card.counts.values())
    if len(rows) != total and (not partial or len(rows) > total):
        raise InputError(
            f"holds outcomes of {len(rows):,} examples, and {card.name} has {total:,}"
            + ("." if len(rows) > total else f"; pass {option('partial', True)} to report these."),
            file=path,
        )
    wins = np.array([outcomes for outcomes, _ in rows], dtype=np.bool_)
    tags = {name: tuple(one.get(name, "") for _, one in rows) for name in TAGS}
    return ChoiceOutcomes(
        tuple(str(i) for i in range(len(rows))),
        tags,
        wins[:, :2],
        wins[:, 2:],
        ("the file has outcomes, not scores: ties and matchings are not known",),
    )


def _read_row(record: Record) -> tuple[list[bool], dict[str, str]]:
    wins = [_read_boolean(record, name) for name in OUTCOME_COLUMNS]
    for name, parts in SUMS.items():
        if name in record.value and _read_boolean(record, name) != all(wins[i] for i in parts):
            raise MalformedError(f"record {record.key}: {name!r} disagrees with its parts.")
    return wins, {tag: record.text(tag) for tag in TAGS if record.value.get(tag)}


def _read_boolean(record: Record, name: str) -> bool:
    value = BOOLEANS.get(str(record.field(name)).strip().lower())
    if value is None:
        raise MalformedError(f"record {record.key}: {name!r} must be True or False.")
    return value
