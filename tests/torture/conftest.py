"""Counts of the torture suite: fixtures, and the table at the end of its run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.torture.mutations import KILLS, ROUNDS, SEED

PREFIX = "torture "
BEGAN = time.monotonic()


class Tally:
    """Counter of the cases that a test tried; the summary adds all of them up."""

    def __init__(self, record: Callable[[str, object], None]):
        self.record = record

    def add(self, kind: str, count: int) -> None:
        """Count some cases of a kind."""
        self.record(PREFIX + kind, count)


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Tally:
    """Counter of the cases that a test tried."""
    return Tally(record_property)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table of docs/reliability.md: cases of each kind, seed, seconds."""
    counts: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if getattr(report, "when", "") == "call" and name.startswith(PREFIX):
                    counts[name.removeprefix(PREFIX)] += value
    if counts:
        seconds = round(time.monotonic() - BEGAN)
        terminalreporter.section("torture")
        terminalreporter.write_line(
            f"TORTURE_SEED={SEED} FUZZ_ROUNDS={ROUNDS} KILL_ROUNDS={KILLS}: "
            f"{seconds // 60} min {seconds % 60} s\n\n| tried | cases |\n|---|---|"
        )
        for name, count in sorted(counts.items()):
            terminalreporter.write_line(f"| {name} | {count:,} |")
