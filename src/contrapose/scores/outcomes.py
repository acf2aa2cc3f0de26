"""Outcome tables: which single choices of 2 × 2 examples were right, without the scores.

BiVLC's tables have all four choices of an example. The table of people's answers to predicate-noun
pairs has a row for each image that a person chose a sentence for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from contrapose.data import Card, TagValue
from contrapose.errors import InputError, option
from contrapose.files import (
    MalformedError,
    Problems,
    Record,
    StrictProblems,
    parse_records,
    read_table_records,
)
from contrapose.metrics import BoolArray, IntArray, clusters_of

OUTCOME_COLUMNS = ("text_score_i0", "text_score_i1", "image_score_c0", "image_score_c1")
"""Columns of BiVLC's tables: the four choices of an example."""

PREDICATE_NOUN_COLUMNS = ("prob_target_match", "prob_distractor_match")
"""Columns of scores of predicate-noun pairs, which tell them from people's answers."""

RESULT = "result"
"""Column of whether a person's choice was right."""

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
        image: (k, captions) whether a caption's right image won; None where that was not asked,
            and it is not known which units are of one example.
        notes: remarks for the reader of the results.
        clusters: cluster of each; None where images are not known.
    """

    ids: tuple[str, ...]
    tags: Mapping[str, tuple[TagValue, ...]]
    text: BoolArray
    image: BoolArray | None
    notes: tuple[str, ...] = ()
    clusters: IntArray | None = None


def read_outcomes(path: object, card: Card, *, partial: bool) -> ChoiceOutcomes | None:
    """Read an outcome table; None where the scores are something else.

    Raises:
        InputError: a value is neither true nor false, a sum disagrees with its parts, or the
            number of examples is not the benchmark's.
    """
    columns = {"bivlc": OUTCOME_COLUMNS, "predicate-noun": (RESULT,)}.get(card.scores)
    if columns is None or not isinstance(path, Path) or not path.is_file():
        return None
    if path.suffix.lower() not in (".csv", ".tsv", ".jsonl", ".parquet"):
        return None
    problems = StrictProblems()
    records = read_table_records(path, problems)
    first = next(records, None)
    if first is None or not isinstance(first.value, dict) or columns[0] not in first.value:
        return None
    if columns == (RESULT,):
        if PREDICATE_NOUN_COLUMNS[0] in first.value:
            return None  # a table of scores
        return _read_results(chain((first,), records), problems)
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


def _read_results(records: Iterable[Record], problems: Problems) -> ChoiceOutcomes:
    """Read rows of one image each, with whether its right sentence was chosen.

    Rows are numbered as they stand: ids of the released file repeat, and are not the benchmark's.
    """

    def build(record: Record) -> tuple[bool, str, str]:
        pos = record.text("pos") if record.value.get("pos") else ""
        return _read_boolean(record, RESULT), pos, record.text("img_filename")

    rows = list(parse_records(records, build, problems))
    right, kinds, images = zip(*rows, strict=True)
    return ChoiceOutcomes(
        tuple(str(i) for i in range(len(rows))),
        {"pos": kinds},
        np.array(right, dtype=np.bool_)[:, None],
        None,
        (
            f"the file has outcomes of {len(rows):,} rows, not scores, and does not tell which are "
            "a pair: only single choices of a sentence are measured",
        ),
        clusters_of([(image,) for image in images]),
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
