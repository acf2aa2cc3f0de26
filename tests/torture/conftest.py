"""Counts of the torture suite: fixtures, and the table at the end of its run."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.torture.mutations import KILLS, ROUNDS, SEED, WHOLE

PREFIX = "torture "
BEGAN = time.monotonic()
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
LAST_RUN = "The last run of the whole:"
TABLE = "| tried | cases |\n|---|---|"


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Print the table of docs/reliability.md: cases of each kind, seed, time.

    With `TORTURE_DOCS` in the environment the table of the page is replaced, if no case failed.
    """
    counts: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if getattr(report, "when", "") == "call" and name.startswith(PREFIX):
                    counts[name.removeprefix(PREFIX)] += value
    if not counts:
        return
    minutes, seconds = divmod(round(time.monotonic() - BEGAN), 60)
    sentence = (
        f"{LAST_RUN if WHOLE else 'A part of the suite:'} "
        f"`TORTURE_SEED={SEED} FUZZ_ROUNDS={ROUNDS} KILL_ROUNDS={KILLS} make torture`, "
        f"{minutes} min {seconds} s on {os.cpu_count()} cores; "
        f"{'some cases' if exitstatus else 'no case'} failed."
    )
    table = [TABLE, *(f"| {name} | {count:,} |" for name, count in sorted(counts.items()))]
    terminalreporter.section("torture")
    terminalreporter.write_line("\n".join([sentence, "", *table]))
    if exitstatus == 0 and WHOLE and os.environ.get("TORTURE_DOCS"):
        write_counts(sentence, table)


def write_counts(sentence: str, table: list[str]) -> None:
    """Replace the sentence on the last run and the table of counts in the docs."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(LAST_RUN)
    lines = rest.partition(TABLE)[2].split("\n")
    after = next(i for i, line in enumerate(lines) if i and not line.startswith("|"))
    text = "\n".join([head + sentence, "", *table, *lines[after:]])
    PAGE.write_text(text, encoding="utf-8")
