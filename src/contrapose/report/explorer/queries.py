"""Queries of the explorer, answered from the columns of an example table.

The script of the page answers the same queries from the rows that a page holds; both must agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from contrapose.metrics import BoolArray, FloatArray, IntArray
from contrapose.report.explorer.columns import ABSENT, MAIN, RIGHT, SIGNS, SKIPPED, UNJUDGED, Codes
from contrapose.report.explorer.table import ExampleTable

SORTS = ("worst", "best", "close", "gain", "loss", "order")
"""Orders of rows: margin of A from low or high, near 0, B ahead of A or behind it, as they are."""
PAIRS = ("right-wrong", "wrong-right", "right-right", "wrong-wrong")
"""Outcomes of A and B; a tie is wrong."""
MAX_PAGE = 200
"""Most rows of an answer."""
MAX_TEXT = 1000


@dataclass(frozen=True, slots=True)
class ExampleQuery:
    """Query of examples.

    Attributes:
        a: number of the run that outcomes and margins are of.
        b: number of the run to compare with; −1 for none.
        metric: column of outcomes.
        outcome: sign of an outcome of A, or one of `PAIRS`; empty for all.
        part: of the benchmark; empty for all.
        tag: name of a tag; empty for none.
        value: of the tag.
        text: must be in the id or a caption, in upper or lower case.
        sort: one of `SORTS`.
    """

    a: int = 0
    b: int = -1
    metric: str = MAIN
    outcome: str = ""
    part: str = ""
    tag: str = ""
    value: str = ""
    text: str = ""
    sort: str = "worst"

    @classmethod
    def parse(cls, words: Mapping[str, str], table: ExampleTable) -> ExampleQuery:
        """Query of an address.

        Raises:
            ValueError: a word has no meaning for this table.
        """
        known = {field.name: field.type for field in fields(cls)}
        values: dict[str, Any] = {
            name: int(word) if known[name] == "int" else word
            for name, word in words.items()
            if name in known
        }
        query = cls(**values)
        count = len(table.runs)
        for word, is_known in (
            (query.a, 0 <= query.a < count),
            (query.b, -1 <= query.b < count),
            (query.sort, query.sort in SORTS),
            (query.metric, query.metric in table.metrics),
            (query.outcome, query.outcome in ("", *SIGNS[:-1], *PAIRS)),
            (query.text, len(query.text) <= MAX_TEXT),
        ):
            if not is_known:
                raise ValueError(f"{word!r} has no meaning here.")
        return query


@dataclass(frozen=True, slots=True, eq=False)
class QueryAnswer:
    """Answer to a query.

    Attributes:
        rows: the rows, in the order that was asked for.
        counts: rows with each outcome, whatever outcome was asked for.
    """

    rows: IntArray
    counts: dict[str, int]


def find_rows(table: ExampleTable, query: ExampleQuery) -> QueryAnswer:
    """Find and sort the rows of a query."""
    codes = _codes(table, query.a, query.metric)
    chosen = codes != ABSENT
    if query.part:
        chosen &= _mask(table.parts.get(query.part), len(table))
    if query.tag:
        chosen &= _mask(table.tags.get(query.tag, {}).get(query.value), len(table))
    if query.text.strip():
        wanted = query.text.strip().lower()
        inside = (wanted in words for words in table.words)
        chosen &= np.fromiter(inside, dtype=np.bool_, count=len(table))
    numbers = np.bincount(codes[chosen], minlength=128)
    counts = {chr(sign): int(numbers[sign]) for sign in np.flatnonzero(numbers).tolist()}
    if query.b >= 0:
        others = _codes(table, query.b, query.metric)
        masks = {name: _pair_mask(name, codes, others) & chosen for name in PAIRS}
        counts |= {name: int(mask.sum()) for name, mask in masks.items()}
        chosen = masks[query.outcome] if query.outcome in PAIRS else chosen
    if query.outcome and query.outcome not in PAIRS:
        chosen &= codes == ord(query.outcome)
    order = _order(table, query)
    return QueryAnswer(order[chosen[order]], counts)


def choose_start(table: ExampleTable, start: Mapping[str, Any]) -> dict[str, Any]:
    """First query of a page, of other outcomes where there is no example of the one it names."""
    named = str(start.get("outcome", ""))
    for outcome in dict.fromkeys((named, *(PAIRS[:2] if named in PAIRS else ()))):
        query = {**start, "outcome": outcome}
        if outcome == "wrong-right" and query.get("sort") == "loss":
            query["sort"] = "gain"
        if named and len(find_rows(table, ExampleQuery(**query)).rows):
            return query
    return {**start, "outcome": ""} if named else dict(start)


def _codes(table: ExampleTable, run: int, metric: str) -> Codes:
    outcomes = table.runs[run].outcomes
    absent = np.full(len(table), ABSENT, dtype=np.uint8)
    return outcomes.get(metric, absent)


def _mask(rows: IntArray | None, size: int) -> BoolArray:
    mask = np.zeros(size, dtype=np.bool_)
    if rows is not None:
        mask[rows] = True
    return mask


def _pair_mask(name: str, first: Codes, second: Codes) -> BoolArray:
    """Rows whose outcomes of A and B are these; rows that one of them lacks are in none."""
    there = np.ones(len(first), dtype=np.bool_)
    for word, codes in zip(name.split("-"), (first, second), strict=True):
        there &= ~np.isin(codes, (ABSENT, SKIPPED, UNJUDGED))
        there &= (codes == RIGHT) if word == "right" else (codes != RIGHT)
    return there


def _order(table: ExampleTable, query: ExampleQuery) -> IntArray:
    """All rows by the margin; rows without one come last, equal ones in their order.

    The table keeps the orders that were asked for, so that a page of another filter needs no sort.
    """
    key = (query.sort, query.a, query.b if query.sort in ("gain", "loss") else -1)
    if key not in table.orders:
        margins = table.runs[query.a].margins
        if query.sort in ("gain", "loss"):
            other = table.runs[query.b].margins if query.b >= 0 else margins
            margins = margins - other if query.sort == "gain" else other - margins
        values: FloatArray = {
            "best": -margins,
            "close": np.abs(margins),
            "order": np.zeros(len(table)),
        }.get(query.sort, margins)
        ranked = np.argsort(np.where(np.isnan(values), np.inf, values), kind="stable")
        table.orders[key] = ranked
    return table.orders[key]
