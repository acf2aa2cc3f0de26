"""Coverage tables of the docs are what the command writes."""

from __future__ import annotations

import pytest

from contrapose.data import benchmark_names
from tools.coverage import MISSING, ROOT, TABLES, fill


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_up_to_date(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert fill(text, TABLES[name]) == text, "run python tools/coverage.py"


def test_every_benchmark_is_named_once() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    covered = page.partition("## What is covered")[2].partition("\n## ")[0]
    for name in benchmark_names():
        assert covered.count(f"| `{name}` |") == 1
    assert not set(MISSING) & set(benchmark_names())


def test_a_page_without_a_mark_is_refused() -> None:
    with pytest.raises(SystemExit, match="coverage"):
        fill("no marks", TABLES["docs/benchmarks.md"])
