"""Summary of the torture suite: when it writes the page, and when it must not."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import raise_examples
from tests.torture import conftest
from tests.torture.conftest import HERE, LAST_RUN, PREFIX, TABLE, pytest_terminal_summary

BEFORE = f"# Page\n\n{LAST_RUN} long ago; no case failed.\n\n{TABLE}\n| old | 1 |\n\nRest.\n"


class Notes(dict[str, Any]):
    """Cache of pytest, in memory."""

    def set(self, key: str, value: object) -> None:
        self[key] = value


class Reporter:
    """Reporter of one test that tried seven cases, and of the tests that ended otherwise."""

    def __init__(self, **stats: list[Any]):
        cases = [(f"{PREFIX}files", 7)]
        report = SimpleNamespace(when="call", user_properties=cases, keywords={"hypothesis": 1})
        self.stats = {"passed": [report], **stats}
        self.lines: list[str] = []

    def section(self, title: str) -> None:
        self.lines.append(title)

    def write_line(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Page that the summary of the whole suite would write."""
    path = tmp_path / "reliability.md"
    path.write_text(BEFORE)
    monkeypatch.setattr(conftest, "PAGE", path)
    monkeypatch.setattr(conftest, "WHOLE", True)
    monkeypatch.setattr(conftest, "PROPERTY_EXAMPLES", 0)
    monkeypatch.setenv("TORTURE_DOCS", "1")
    return path


def run_both(
    monkeypatch: pytest.MonkeyPatch,
    *,
    status: int = 0,
    property_status: int = 0,
    arguments: tuple[str, ...] = (str(HERE),),
    stats: dict[str, list[Any]] | None = None,
    **options: object,
) -> list[str]:
    """Lines that the second of two runs prints, which end with some statuses."""
    notes = Notes()
    config: Any = SimpleNamespace(cache=notes, args=arguments, getoption=options.get)
    with monkeypatch.context() as patch:
        patch.setattr(conftest, "PROPERTY_EXAMPLES", 1000)
        first: Any = Reporter()
        pytest_terminal_summary(first, property_status, config)
        assert first.lines == []
    second: Any = Reporter(**(stats or {}))
    pytest_terminal_summary(second, status, config)
    assert not any(notes.values())
    lines: list[str] = second.lines
    return lines


def test_whole_run_writes_its_counts(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_both(monkeypatch, stats={"skipped": [None, None]})
    text = page.read_text()
    assert "no case failed, 2 tests were skipped." in text
    assert "| files | 7 |\n| property tests, with 1,000 examples each | 1 |\n\nRest.\n" in text
    assert "old" not in text


@pytest.mark.parametrize(
    "run",
    [
        {"status": 1},
        {"status": 2},
        {"stats": {"failed": [None]}},
        {"stats": {"error": [None]}},
        {"property_status": 1},
        {"keyword": "store"},
        {"markexpr": "browser"},
        {"arguments": (str(HERE / "test_store.py"),)},
        {"arguments": (str(HERE), str(HERE / "test_store.py"))},
    ],
    ids=str,
)
def test_other_runs_leave_the_page(
    page: Path, monkeypatch: pytest.MonkeyPatch, run: dict[str, Any]
) -> None:
    lines = run_both(monkeypatch, **run)
    assert page.read_text() == BEFORE
    assert "stays" in lines[-1]
    failed = "status" in run or "stats" in run
    assert ("some cases failed" in lines[1]) == failed


def test_property_tests_of_another_seed_do_not_count(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = Notes({conftest.PROPERTIES: {"seed": "another", "counts": {}, "seconds": 1.0}})
    config: Any = SimpleNamespace(cache=notes, args=[HERE], getoption=lambda name, default: None)
    reporter: Any = Reporter()
    pytest_terminal_summary(reporter, 0, config)
    assert page.read_text() == BEFORE


def test_a_forked_process_reports_nothing(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that a test forked, and that ran on by mistake, has pytest's hooks too."""
    monkeypatch.setattr(conftest, "PROCESS", os.getpid() + 1)
    reporter: Any = Reporter()
    pytest_terminal_summary(reporter, 0, SimpleNamespace())  # type: ignore[arg-type]
    assert reporter.lines == []
    assert page.read_text() == BEFORE


def test_a_worker_reports_nothing(page: Path) -> None:
    """It knows a part of the tests; the process that started it knows all."""
    reporter: Any = Reporter()
    pytest_terminal_summary(reporter, 0, SimpleNamespace(workerinput={}))  # type: ignore[arg-type]
    assert reporter.lines == []
    assert page.read_text() == BEFORE


def test_examples_are_raised_also_where_a_test_has_its_own_number() -> None:
    values = []

    @settings(max_examples=3, database=None)
    @given(st.integers())
    def check(value: int) -> None:
        values.append(value)

    raise_examples(check, 90)
    check()
    assert len(values) == 90
    raise_examples(check, 2)
    check()
    assert len(values) == 180
