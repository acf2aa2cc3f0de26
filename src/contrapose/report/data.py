"""What a check of a benchmark's files found, for people and for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from contrapose.data.check import DataReport
from contrapose.files import Problem
from contrapose.report.tables import Table

FIRST = 5
"""Problems of one kind that are named before the rest is only counted."""


def data_report_parts(report: DataReport, *, every: bool = False) -> list[Table | str]:
    """What `contrapose check data` prints.

    Args:
        report: what was found.
        every: name every problem and note, not the first few of each kind.
    """
    names = dict.fromkeys((*report.expected, *report.examples))
    rows = [(name, f"{report.examples.get(name, 0):,}", _expected(report, name)) for name in names]
    if len(rows) > 1:
        total = sum(report.examples.values())
        expected = sum(report.expected.values())
        rows.append(("total", f"{total:,}", f"{expected:,}" if expected else "–"))
    title = f"{report.benchmark} in {report.root}"
    table = Table(title, ("<part", "examples", "released"), tuple(rows))
    opened = f"{report.opened:,} opened" if report.opened else "none opened"
    counts = f"{report.images:,} images ({opened}), {report.captions:,} captions."
    parts: list[Table | str] = [table, counts]
    parts += _listed("note", report.notes, every=every)
    parts += _listed("problem", report.problems, every=every)
    number = len(report.problems)
    parts.append("Nothing is wrong." if report.ok else f"{_counted(number, 'problem')} found.")
    return parts


def data_report_json(report: DataReport) -> str:
    """The report as JSON."""
    return json.dumps(
        {
            "benchmark": report.benchmark,
            "root": str(report.root),
            "ok": report.ok,
            "examples": dict(report.examples),
            "released": dict(report.expected),
            "images": report.images,
            "opened": report.opened,
            "captions": report.captions,
            "problems": [_as_dict(problem) for problem in report.problems],
            "notes": [_as_dict(note) for note in report.notes],
        },
        indent=2,
        ensure_ascii=False,
    )


def _listed(what: str, found: Sequence[Problem], *, every: bool) -> list[str]:
    lines = []
    shown: Counter[str] = Counter()
    totals = Counter(problem.kind for problem in found)
    for problem in found:
        shown[problem.kind] += 1
        if every or shown[problem.kind] <= FIRST:
            lines.append(f"{what}: {problem.kind}: {problem}")
    for kind, total in totals.items():
        if not every and total > FIRST:
            lines.append(f"{what}: {kind}: {total - FIRST:,} more; --all names them.")
    return lines


def _expected(report: DataReport, name: str) -> str:
    return f"{report.expected[name]:,}" if name in report.expected else "–"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _as_dict(problem: Problem) -> dict[str, str | int | None]:
    file = None if problem.file is None else str(problem.file)
    return {
        "kind": problem.kind,
        "message": problem.message,
        "file": file,
        "line": problem.line,
    }
