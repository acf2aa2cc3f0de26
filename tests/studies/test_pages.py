"""Every table of a study's page is what its command prints from the kept answers."""

from __future__ import annotations

import re
from pathlib import Path

from studies import eqsim
from studies.kept import FOLDER, KeptAnswers
from studies.priors_report import report

DOCS = Path(__file__).resolve().parents[2] / "docs" / "studies"


def _read(name: str) -> str:
    """Page of a study, whose pictures are there."""
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    pictures = re.findall(r"\]\(([\w.-]+\.svg)\)", page)
    assert pictures
    assert all((DOCS / picture).is_file() for picture in pictures)
    return page


def _sections(printed: str) -> list[str]:
    return re.split(r"\n\n(?=## )", printed.rstrip("\n"))


def test_eqsim() -> None:
    assert eqsim.report_study(eqsim.PACKED) in _read("eqsim")


def test_priors(tmp_path: Path) -> None:
    page = _read("priors")
    sections = _sections(report(KeptAnswers(FOLDER / "priors.npz"), tmp_path))
    assert len(sections) == 10
    for section in sections:
        assert section in page
    assert len(list(tmp_path.glob("*.svg"))) == 4
