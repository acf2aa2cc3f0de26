"""The example of the page on adding a model is a model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contrapose.models.conformance import CHECKS, check_model

PAGE = Path(__file__).resolve().parents[3] / "docs" / "adding-a-model.md"


def test_the_example_conforms(tmp_path: Path) -> None:
    from contrapose.models import load_model

    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "mine.py"
    file.write_text(code)
    report = check_model(load_model(f"{file}:Mine"), load=lambda: load_model(f"{file}:Mine"))
    assert report.ok, report.failed
    assert sum(finding.outcome == "passed" for finding in report.findings) >= 18


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_checks_have_names_for_a_list(check: object) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", str(getattr(check, "name", "")))
