"""Listings of models and scores, and reports of data and model checks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from contrapose.data.check import DataReport
from contrapose.errors import option
from contrapose.files import Problem
from contrapose.models.conformance import ConformanceReport
from contrapose.models.registry import FamilyCard
from contrapose.report.tables import Table


def families_table(families: Sequence[FamilyCard], installed: Mapping[str, bool]) -> Table:
    """Table with one line per model family.

    Args:
        families: in order.
        installed: extra → whether its packages are installed.
    """
    rows = tuple(
        (
            family.name,
            ", ".join(family.scores) or "as it can",
            family.pattern,
            family.example,
            _format_extra(family.extra, installed),
        )
        for family in families
    )
    header = ("<family", "<scores", "<name", "<example", "<needs")
    title = "The families · a wider terminal shows their scores, patterns and needs"
    narrow = Table(title, (header[0], header[3]), tuple((row[0], row[3]) for row in rows))
    return Table("", header, rows, drop=("name", "needs"), narrow=(narrow,))


def families_json(
    families: Sequence[FamilyCard], installed: Mapping[str, bool], plugins: Sequence[str]
) -> str:
    """Model families as JSON, with names added by other packages and files."""
    listed = [
        {**asdict(family), "installed": installed.get(family.extra, True)} for family in families
    ]
    return _to_json({"families": listed, "plugins": list(plugins)})


def scores_table(scores: Sequence[Mapping[str, Any]]) -> Table:
    """Table with one line per score."""
    rows = tuple(
        (score["name"], score["needs"], ", ".join(score["families"]), score["meaning"])
        for score in scores
    )
    return Table("", ("<score", "<of", "<families", "<what the number is"), rows)


def scores_json(scores: Sequence[Mapping[str, Any]]) -> str:
    """Scores as JSON."""
    return _to_json(list(scores))


def model_report_parts(report: ConformanceReport) -> list[Table | str]:
    """Output of `contrapose check model`: every check, then a summary."""
    rows = tuple((check.outcome, check.name, check.sentence) for check in report.findings)
    parts: list[Table | str] = [
        Table(f"{report.model} in {report.dtype}", ("<outcome", "<check", "<what must be so"), rows)
    ]
    for outcome in ("not applicable", "not checked", "failed"):
        reasons: dict[str, list[str]] = {}
        for check in report.findings:
            if check.outcome == outcome:
                reasons.setdefault(check.detail, []).append(check.name)
        parts += [f"{outcome}: {', '.join(names)}: {detail}." for detail, names in reasons.items()]
    passed = sum(check.outcome == "passed" for check in report.findings)
    return [
        *parts,
        f"{passed} of {len(report.findings)} checks passed, {len(report.failed)} failed; "
        f"answers to the same pair may differ by {report.tolerance:g} (relative).",
    ]


def model_report_json(report: ConformanceReport) -> str:
    """Model check report as JSON."""
    return _to_json({**asdict(report), "ok": report.ok})


def _format_extra(extra: str, installed: Mapping[str, bool]) -> str:
    if not extra:
        return "nothing"
    return "installed" if installed.get(extra, True) else f"extra {extra}"


def _to_json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False)


MAX_NAMED = 5
"""Problems of one kind that are named before the rest is only counted."""


def data_report_parts(report: DataReport, *, every: bool = False) -> list[Table | str]:
    """Output of `contrapose check data`.

    Args:
        report: problems, notes and counts.
        every: name every problem and note, not the first few of each kind.
    """
    names = dict.fromkeys((*report.expected, *report.examples))
    rows = [
        (name, f"{report.examples.get(name, 0):,}", _released_count(report, name)) for name in names
    ]
    if len(rows) > 1:
        total = sum(report.examples.values())
        expected = sum(report.expected.values())
        rows.append(("total", f"{total:,}", f"{expected:,}" if expected else "–"))
    title = f"{report.benchmark} in {report.root}"
    table = Table(title, ("<part", "examples", "released"), tuple(rows))
    opened = f"{report.opened:,} opened" if report.opened else "none opened"
    counts = f"{report.images:,} images ({opened}), {report.captions:,} captions."
    parts: list[Table | str] = [table, counts]
    parts += _problem_lines("note", report.notes, every=every)
    parts += _problem_lines("problem", report.problems, every=every)
    number = len(report.problems)
    parts.append("Nothing is wrong." if report.ok else f"{_count_noun(number, 'problem')} found.")
    return parts


def data_report_json(report: DataReport) -> str:
    """Data check report as JSON."""
    return _to_json(
        {
            "benchmark": report.benchmark,
            "root": str(report.root),
            "ok": report.ok,
            "examples": dict(report.examples),
            "released": dict(report.expected),
            "images": report.images,
            "opened": report.opened,
            "captions": report.captions,
            "problems": [_problem_dict(problem) for problem in report.problems],
            "notes": [_problem_dict(note) for note in report.notes],
        }
    )


def _problem_lines(noun: str, problems: Sequence[Problem], *, every: bool) -> list[str]:
    lines = []
    counts: Counter[str] = Counter()
    totals = Counter(problem.kind for problem in problems)
    for problem in problems:
        counts[problem.kind] += 1
        if every or counts[problem.kind] <= MAX_NAMED:
            lines.append(f"{noun}: {problem.kind}: {problem}")
    for kind, total in totals.items():
        if not every and total > MAX_NAMED:
            lines.append(f"{noun}: {kind}: {total - MAX_NAMED:,} more; {option('all')} names them.")
    return lines


def _released_count(report: DataReport, name: str) -> str:
    return f"{report.expected[name]:,}" if name in report.expected else "–"


def _count_noun(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _problem_dict(problem: Problem) -> dict[str, str | int | None]:
    file = None if problem.file is None else str(problem.file)
    return {
        "kind": problem.kind,
        "message": problem.message,
        "file": file,
        "line": problem.line,
    }
