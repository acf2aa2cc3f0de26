"""Records of runs, and their score tables, one row per pair, as they are written to disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from contrapose.arrays import Ragged
from contrapose.data import EditSet, Example, Gallery
from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.results.measures import Measurements
from contrapose.results.schema import Results
from contrapose.scores import Answers

if TYPE_CHECKING:
    from contrapose.scores.rankings import ComposedRankings

ScoreTable = dict[str, Any]
"""Columns example, image, text, value, match; positions from 0, null where there is none.

Where they were asked for, `logprobs` has the caption's token log-probabilities; where a prior is
taken out, `prior` has the caption's, and `value` is the score before that.
"""

RANKING_COLUMNS = ("name", "list")
"""Columns of ranked images: the image's name, and whether it is in the gallery's or the subset's
list of the query."""

LARGEST = 10_000_000
"""Cells of a gallery beyond which its matrix is not written out pair by pair."""


@dataclass(frozen=True, slots=True, eq=False)
class RunRecord:
    """Run: request, score table, measures and results.

    Attributes:
        request: what was asked.
        scores: the scores, a row a pair; None for galleries, whose matrix is the user's own file.
        measured: the outcome of every example.
        results: what is reported.
        spec: what else should be known of how it was made.
        replies: what was asked in words and what came back, a row a question; None otherwise.
        cases: the examples by their ids in `scores`, for the images and captions of a report;
            empty where they are not known.
        captions: the captions by example, of a run that was read back, which has no cases.
    """

    request: Any
    scores: ScoreTable | None
    measured: Measurements
    results: Results
    spec: Mapping[str, Any] = field(default_factory=dict)
    replies: ScoreTable | None = None
    cases: Mapping[str, Example] = field(default_factory=dict)
    captions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def answers_table(
    answers: Answers,
    prefix: str = "",
    *,
    tokens: tuple[Ragged, IntArray] | None = None,
    prior: FloatArray | None = None,
) -> ScoreTable:
    """Score table of examples.

    Args:
        answers: the scores.
        prefix: put before every id.
        tokens: lists of token log-probabilities, and for each cell (k × m × n) the list's position.
        prior: log priors of the captions, k × n.
    """
    example, image, text = np.nonzero(answers.frame.present)
    ids = np.array([prefix + name for name in answers.frame.ids], dtype=object)
    table: ScoreTable = {
        "example": ids[example],
        "image": image,
        "text": text,
        "value": answers.scores[example, image, text],
        "match": answers.frame.match[example, image, text],
    }
    if prior is not None:
        table["prior"] = prior[example, text]
    if tokens is not None:
        lists, positions = tokens
        table["logprobs"] = lists.take(positions[example, image, text])
    return table


def grid_table(
    values: FloatArray,
    data: Gallery | EditSet,
    prefix: str = "",
    *,
    scored: BoolArray | None = None,
) -> ScoreTable | None:
    """Score table of a gallery or of edit queries; None when there are too many pairs.

    Of an edit query the image is the one in the database; it has no caption and no match.

    Args:
        values: images × texts, or queries × database images; NaN is left out.
        data: the gallery or the edit set.
        prefix: put before every id.
        scored: the pairs that the model scored; None for all.
    """
    there = ~np.isnan(values) if scored is None else scored & ~np.isnan(values)
    if there.sum() > LARGEST:
        return None
    row, column = np.nonzero(there)
    if isinstance(data, Gallery):
        match = np.zeros(values.shape, dtype=np.bool_)
        match[tuple(np.array(data.pairs, dtype=np.int64).reshape(-1, 2).T)] = True
        return {
            "example": np.full(len(row), prefix + data.id, dtype=object),
            "image": row,
            "text": column,
            "value": values[row, column],
            "match": match[row, column],
        }
    ids = np.array([prefix + query.id for query in data.queries], dtype=object)
    return {
        "example": ids[row],
        "image": column,
        "text": np.full(len(row), None, dtype=object),
        "value": values[row, column],
        "match": np.full(len(row), None, dtype=object),
    }


def rankings_table(rankings: ComposedRankings, prefix: str = "") -> ScoreTable:
    """Score table of the ranked images of composed queries, best first, gallery before subset."""
    data = rankings.data
    ids = np.array([prefix + query.id for query in data.queries], dtype=object)
    keys = np.array([image.key for image in data.images], dtype=object)
    tables: list[ScoreTable] = []
    for name, lists in (("gallery", rankings.gallery), ("subset", rankings.subset)):
        if lists is None:
            continue
        row, rank = np.nonzero(lists.positions >= 0)
        image = lists.positions[row, rank]
        tables.append(
            {
                "example": ids[row],
                "image": image,
                "text": np.full(len(row), None, dtype=object),
                "value": lists.values[row, rank],
                "match": lists.hits[row, rank],
                "name": keys[image],
                "list": np.full(len(row), name, dtype=object),
            }
        )
    return stack_tables(tables)


def stack_tables(tables: Sequence[ScoreTable]) -> ScoreTable:
    """Stack tables; columns that one of them lacks are null there."""
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: _stack_column(tables, name) for name in names}


def _stack_column(tables: Sequence[ScoreTable], name: str) -> Any:
    if name == "logprobs":
        return Ragged.concatenate(
            [table.get(name) or Ragged.empty(len(table["example"])) for table in tables]
        )
    missing = np.nan  # of the columns that not every table has
    return np.concatenate(
        [table.get(name, np.full(len(table["example"]), missing)) for table in tables]
    )
