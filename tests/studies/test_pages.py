"""Every table of a study's page is what its command prints from the kept answers."""

from __future__ import annotations

from pathlib import Path

from studies import eqsim

DOCS = Path(__file__).resolve().parents[2] / "docs" / "studies"


def test_eqsim() -> None:
    page = (DOCS / "eqsim.md").read_text(encoding="utf-8")
    assert eqsim.report_study(eqsim.PACKED) in page
