"""Models, scores and what a check of a model found, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from contrapose.models.conformance import Report
from contrapose.models.families import FamilyCard
from contrapose.report.tables import Table


def families_table(families: Sequence[FamilyCard], installed: Mapping[str, bool]) -> Table:
    """One line a family.

    Args:
        families: in order.
        installed: extra → whether what it needs is here.
    """
    rows = tuple(
        (
            family.name,
            ", ".join(family.scores) or "as it can",
            family.pattern,
            family.example,
            _extra(family.extra, installed),
        )
        for family in families
    )
    return Table("", ("<family", "<scores", "<name", "<example", "<needs"), rows)


def families_json(
    families: Sequence[FamilyCard], installed: Mapping[str, bool], plugins: Sequence[str]
) -> str:
    """The same as JSON, with the names that other packages and files add."""
    listed = [
        {**asdict(family), "installed": installed.get(family.extra, True)} for family in families
    ]
    return _json({"families": listed, "plugins": list(plugins)})


def scores_table(scores: Sequence[Mapping[str, Any]]) -> Table:
    """One line a score."""
    rows = tuple(
        (each["name"], each["needs"], ", ".join(each["families"]), each["meaning"])
        for each in scores
    )
    return Table("", ("<score", "<of", "<families", "<what the number is"), rows)


def scores_json(scores: Sequence[Mapping[str, Any]]) -> str:
    """The same as JSON."""
    return _json(list(scores))


def model_report_parts(report: Report) -> list[Table | str]:
    """What `contrapose check model` prints: every check, then what it comes to."""
    rows = tuple((each.outcome, each.name, each.sentence) for each in report.findings)
    parts: list[Table | str] = [
        Table(f"{report.model} in {report.dtype}", ("<outcome", "<check", "<what must be so"), rows)
    ]
    for outcome in ("not applicable", "not checked", "failed"):
        why: dict[str, list[str]] = {}
        for each in report.findings:
            if each.outcome == outcome:
                why.setdefault(each.detail, []).append(each.name)
        parts += [f"{outcome}: {', '.join(names)}: {detail}." for detail, names in why.items()]
    passed = sum(each.outcome == "passed" for each in report.findings)
    said = f"{passed} of {len(report.findings)} checks passed, {len(report.failed)} failed; "
    return [
        *parts,
        f"{said}answers to the same pair may differ by {report.tolerance:g} (relative).",
    ]


def model_report_json(report: Report) -> str:
    """The report as JSON."""
    return _json({**asdict(report), "ok": report.ok})


def _extra(extra: str, installed: Mapping[str, bool]) -> str:
    if not extra:
        return "nothing"
    return "installed" if installed.get(extra, True) else f"pip install 'contrapose[{extra}]'"


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False)
