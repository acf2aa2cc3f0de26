"""Columns of a run for the explorer: outcomes by metric, margins, scores, reasons and replies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrapose.metrics import FloatArray, IntArray
from contrapose.report.results import run_label
from contrapose.report.run_examples import (
    ExampleScores,
    equal_ids,
    example_scores,
    find_mistake_rule,
    is_debiased,
    measured_margins,
)
from contrapose.results import RunRecord
from contrapose.results.measures import Measure, Measurements
from contrapose.results.shapes import MistakeRule, main_metric

Codes = NDArray[np.uint8]
SIGNS = "rwtpsn-"
RIGHT, WRONG, TIED, PARTLY, SKIPPED, UNJUDGED, ABSENT = (np.uint8(ord(sign)) for sign in SIGNS)
"""Outcomes of an example: a tie is never a win; partly is a share of several answers; unjudged are
examples that no metric calls right or wrong; absent are those of other runs."""

MAIN = "main metric"
"""Name of the first column of outcomes: the main metric of each example's shape."""
MAX_REPLIES = 6
"""Replies of a chat model that are shown for each example."""
BEFORE_PRIOR = "scores and margins are those before the prior is taken out"


@dataclass(frozen=True, slots=True, eq=False)
class RunColumns:
    """Columns of one run, for the N rows of the table.

    Attributes:
        label: model and score.
        model: name of the model; None where the scores were given.
        score: name of the score.
        benchmark: name of the benchmark.
        folder: the run folder; empty where there is none.
        outcomes: by metric, the outcome of each row.
        margins: by how much right is ahead of wrong, in `spread`s; NaN where nothing is compared.
        spread: standard deviation of all scores of the run.
        scored: the scores; None where they are no choices of an example.
        at: position in `scored`; −1 where the row has no scores.
        rule: which images of an example show its mistake; None for all.
        reasons: why rows were skipped.
        replies: (prompt, reply, is right) of chat models, the wrong ones first.
        note: sentence on the run; empty for none.
    """

    label: str
    model: str | None
    score: str | None
    benchmark: str
    folder: str
    outcomes: Mapping[str, Codes]
    margins: FloatArray
    spread: float
    scored: ExampleScores | None
    at: IntArray
    rule: MistakeRule | None
    reasons: Mapping[int, str]
    replies: Mapping[int, Sequence[tuple[str, str, bool]]]
    note: str

    @property
    def key(self) -> str:
        """Short name of model and score, for the names of files."""
        return short_key(self.model, self.score)

    def counts(self) -> dict[str, int]:
        """Number of rows with each outcome of the main metric, absent ones left out."""
        codes, counts = np.unique(self.outcomes[MAIN], return_counts=True)
        named = {chr(code): int(count) for code, count in zip(codes, counts, strict=True)}
        named.pop(chr(ABSENT), None)
        return named


def short_key(*words: str | None) -> str:
    """Name of 12 hexadecimal digits for some words."""
    return hashlib.sha256("\n".join(word or "" for word in words).encode()).hexdigest()[:12]


def distinguish_runs(records: Sequence[RunRecord], names: Sequence[str] = ()) -> list[RunRecord]:
    """Runs whose labels differ: of equal ones the name of the folder, or a number, is added.

    Args:
        records: the runs.
        names: of their folders; empty for none.
    """
    labels = [(run.results.benchmark, run_label(run.results)) for run in records]
    distinct = list(records)
    for number, (run, label) in enumerate(zip(records, labels, strict=True)):
        if labels.count(label) > 1:
            same = [i for i, other in enumerate(labels) if other == label]
            known = [names[i] for i in same] if names else []
            name = names[number] if len(set(known)) == len(same) else str(same.index(number) + 1)
            shown = {"model": f"{run.results.model or run_label(run.results)} ({name})"}
            spec = {**run.spec, "model_string": run.results.model}
            results = run.results.model_copy(update=shown)
            distinct[number] = replace(run, results=results, spec=spec)
    return distinct


def build_columns(record: RunRecord, rows: IntArray, size: int, folder: str) -> RunColumns:
    """Columns of a run.

    Args:
        record: the run.
        rows: row of each of its units, and of those that it skipped.
        size: number of rows of the table.
        folder: the run folder; empty where there is none.
    """
    results, measured = record.results, record.measured
    mine = rows[: len(measured)]
    scored = example_scores(record)
    rule = find_mistake_rule(record)
    margins, at, spread = np.full(size, np.nan), np.full(size, -1, dtype=np.int64), 1.0
    if scored is not None:
        target = mine
        if not equal_ids(scored.ids, measured.ids):
            row_of = dict(zip(measured.ids, mine.tolist(), strict=True))
            target = np.array([row_of[name] for name in scored.ids], dtype=np.int64)
        at[target] = np.arange(len(target))
        values = measured_margins(record, scored.ids)
        if values is None:
            values = scored.worst_margins() if rule is None else scored.margins_by(rule)
        finite = scored.value[np.isfinite(scored.value)]
        spread = float(np.std(finite)) if finite.size else 1.0
        spread = spread if spread > 0 else 1.0
        # Rounded as the page has them, so that page and server sort alike.
        margins[target] = np.where(np.isfinite(values), np.round(-values / spread, 6), np.nan)
    groups = _measures_by_part(measured)
    names = dict.fromkeys(name for group in groups for name in _binary_measures(group))
    outcomes = {name: np.full(size, ABSENT, dtype=np.uint8) for name in (MAIN, *names)}
    main = np.full(len(measured), ABSENT, dtype=np.uint8)
    for group in groups:
        _fill_absent(main, _main_outcomes(group, len(measured)))
        for name, measure in _binary_measures(group).items():
            codes = outcomes[name][mine]
            _fill_absent(codes, _outcome_codes(measure))
            outcomes[name][mine] = codes
    undecided = (main == ABSENT) & ~np.isnan(margins[mine])
    signs = np.sign(np.nan_to_num(margins[mine])).astype(int)
    main[undecided] = np.array([TIED, RIGHT, WRONG])[signs][undecided]
    main[main == ABSENT] = UNJUDGED
    outcomes[MAIN][mine] = main
    reasons = record.spec.get("skipped", {})
    skipped = dict(zip(rows[len(measured) :].tolist(), reasons.values(), strict=True))
    for codes in outcomes.values():
        codes[list(skipped)] = SKIPPED
    return RunColumns(
        label=run_label(results),
        model=record.spec.get("model_string", results.model),
        score=results.score,
        benchmark=results.benchmark,
        folder=folder,
        outcomes=outcomes,
        margins=margins,
        spread=spread,
        scored=scored,
        at=at,
        rule=rule,
        reasons={row: str(why) for row, why in skipped.items()},
        replies=_collect_replies(record, mine),
        note=BEFORE_PRIOR if scored is not None and is_debiased(results) else "",
    )


def _measures_by_part(measured: Measurements) -> list[dict[str, Measure]]:
    """Measures of each part under the names of their metrics; a suite names them `part/metric`."""
    parts = {str(name) for name in measured.tags.get("part", ())}
    groups: dict[str, dict[str, Measure]] = {}
    for name, measure in measured.measures.items():
        part, _, metric = name.rpartition("/")
        key = (part, metric) if part in parts else ("", name)
        groups.setdefault(key[0], {})[key[1]] = measure
    return list(groups.values())


def _fill_absent(codes: Codes, more: Codes) -> None:
    """Take outcomes of units that have none yet."""
    empty = codes == ABSENT
    codes[empty] = more[empty]


def _outcome_codes(measure: Measure) -> Codes:
    """Outcome of each unit by one measure."""
    codes = np.full(len(measure.values), PARTLY, dtype=np.uint8)
    codes[measure.values <= 0] = WRONG
    if measure.ties is not None:
        codes[measure.ties] = TIED
    codes[measure.values >= 1] = RIGHT
    codes[~measure.where] = ABSENT
    return codes


def _main_outcomes(measures: Mapping[str, Measure], size: int) -> Codes:
    """Outcome of each unit by the main metric of its shape, or by any other share."""
    codes = np.full(size, ABSENT, dtype=np.uint8)
    left = dict(measures)
    names: list[str] = []
    while (name := main_metric(left)) is not None:
        names.append(name)
        del left[name]
    for name in (*names, *_binary_measures(left)):
        _fill_absent(codes, _outcome_codes(measures[name]))
    return codes


def _binary_measures(measures: Mapping[str, Measure]) -> dict[str, Measure]:
    """Measures of which every value is right or wrong, and higher is better."""
    return {
        name: measure
        for name, measure in measures.items()
        if measure.shown and measure.better == "higher" and measure.binary and measure.where.any()
    }


def _collect_replies(record: RunRecord, rows: IntArray) -> dict[int, list[tuple[str, str, bool]]]:
    """Prompts and replies of a chat model by row, the wrong ones first."""
    table = record.replies
    if table is None:
        return {}
    row_of = dict(zip(record.measured.ids, rows.tolist(), strict=True))
    replies: dict[int, list[tuple[str, str, bool]]] = {}
    for unit, prompt, reply, is_right in _reply_rows(table):
        if unit in row_of:
            replies.setdefault(row_of[unit], []).append((prompt, reply, is_right))
    return {
        row: sorted(some, key=lambda reply: reply[2])[:MAX_REPLIES] for row, some in replies.items()
    }


def _reply_rows(table: Mapping[str, Any]) -> Iterator[tuple[str, str, str, bool]]:
    columns = (table[name] for name in ("example", "prompt", "reply", "chosen", "right"))
    for unit, prompt, reply, chosen, right in zip(*columns, strict=True):
        yield str(unit), str(prompt), str(reply), bool(chosen == right)
