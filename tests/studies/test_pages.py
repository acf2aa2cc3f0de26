"""Every table of a study's page is what its command prints from the kept answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from studies import delta, eqsim, harsanyi, harsanyi_report
from studies.delta_report import report_study as report_delta
from studies.kept import FOLDER, KeptAnswers
from studies.positives_report import report_lines, write_charts
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


def test_delta() -> None:
    page = _read("delta")
    sections = _sections(report_delta(KeptAnswers(delta.PACKED)))
    assert len(sections) == 8
    for section in sections:
        assert section in page


def test_eqsim() -> None:
    assert eqsim.report_study(eqsim.PACKED) in _read("eqsim")


def test_priors(tmp_path: Path) -> None:
    page = _read("priors")
    sections = _sections(report(KeptAnswers(FOLDER / "priors.npz"), tmp_path))
    assert len(sections) == 10
    for section in sections:
        assert section in page
    assert len(list(tmp_path.glob("*.svg"))) == 4


def test_positives(tmp_path: Path) -> None:
    page, kept = _read("positives"), KeptAnswers(FOLDER / "positives.npz")
    sections = _sections("\n".join(report_lines(kept)))
    assert len(sections) == 8
    for section in sections:
        assert section in page
    assert len(write_charts(kept, tmp_path)) == 3


@pytest.mark.parametrize("name", ["delta", "eqsim", "harsanyi", "positives", "priors"])
def test_counts_of_verdicts(name: str) -> None:
    """The overview counts the verdicts of each page."""
    claims = _read(name).partition("## Claims")[2].partition("\n## ")[0]
    words = ("**holds**", "**does not hold**", "**open**", "not testable:")
    counts = " | ".join(str(claims.count(word)) for word in words)
    overview = (DOCS / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"\({name}\.md\) \|.*\| {re.escape(counts)} \|", overview)


def test_harsanyi() -> None:
    assert harsanyi_report.report_study(harsanyi.PACKED) in _read("harsanyi")
