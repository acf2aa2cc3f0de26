"""Counts of the torture suite: fixtures, and the table at the end of its run."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.torture.mutations import KILLS, ROUNDS, SEED, WHOLE

PREFIX = "torture "
BEGAN = time.monotonic()
PROCESS = os.getpid()
HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "reliability.md"
PROPERTIES = "torture/properties"
"""Key of the note of one pytest run to the next: how many property tests passed, with what seed."""
PROPERTY_EXAMPLES = int(os.environ.get("PROPERTY_EXAMPLES", "0"))
"""Whether, and with how many examples, this is the run of the property tests."""
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


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Print the table of docs/reliability.md: cases of each kind, seed, time.

    With `TORTURE_DOCS` in the environment the table of the page is replaced, if this was the whole
    suite, no test failed or was left out, and the property tests before it passed. Only the process
    that pytest began in prints and writes: workers, which know a part of the tests, and processes
    that a test forked have the same hooks.
    """
    if hasattr(config, "workerinput") or os.getpid() != PROCESS:
        return
    if PROPERTY_EXAMPLES:
        note_properties(terminalreporter, exitstatus, config)
    counts = count_cases(terminalreporter)
    if not counts or PROPERTY_EXAMPLES:
        return
    properties = take_properties(config)
    counts.update(properties.get("counts", {}))
    passed = exitstatus == 0 and not {"failed", "error"} & terminalreporter.stats.keys()
    skipped = len(terminalreporter.stats.get("skipped", ()))
    taken = time.monotonic() - BEGAN + properties.get("seconds", 0)
    minutes, seconds = divmod(round(taken), 60)
    sentence = (
        f"{LAST_RUN if WHOLE else 'A part of the suite:'} "
        f"`TORTURE_SEED={SEED} FUZZ_ROUNDS={ROUNDS} KILL_ROUNDS={KILLS} make torture`, "
        f"{minutes} min {seconds} s on {os.cpu_count()} cores; "
        f"{'no case' if passed else 'some cases'} failed"
        f"{f', {skipped} tests were skipped' if skipped else ''}."
    )
    table = [TABLE, *(f"| {name} | {count:,} |" for name, count in sorted(counts.items()))]
    terminalreporter.section("torture")
    terminalreporter.write_line("\n".join([sentence, "", *table]))
    if os.environ.get("TORTURE_DOCS"):
        if passed and properties and WHOLE and is_complete(config):
            write_counts(sentence, table)
        else:
            terminalreporter.write_line(f"{PAGE.name} stays as it is.")


def count_cases(reporter: pytest.TerminalReporter) -> Counter[str]:
    """Cases of all tests that ended, by kind."""
    counts: Counter[str] = Counter()
    for reports in reporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if getattr(report, "when", "") == "call" and name.startswith(PREFIX):
                    counts[name.removeprefix(PREFIX)] += value
    return counts


def note_properties(
    reporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Note for the next run how many property tests passed, or nothing if one did not."""
    passed = reporter.stats.get("passed", ())
    tests = sum("hypothesis" in report.keywords for report in passed)
    counts = {f"property tests, with {PROPERTY_EXAMPLES:,} examples each": tests}
    note = {"seed": SEED, "counts": counts, "seconds": time.monotonic() - BEGAN}
    if config.cache is not None:
        config.cache.set(PROPERTIES, None if exitstatus or not tests else note)


def take_properties(config: pytest.Config) -> dict[str, Any]:
    """Note of the property tests that passed in the run before, with this seed; used once."""
    if config.cache is None:
        return {}
    note: dict[str, Any] = config.cache.get(PROPERTIES, None) or {}
    config.cache.set(PROPERTIES, None)
    return note if note.get("seed") == SEED else {}


def is_complete(config: pytest.Config) -> bool:
    """Whether all tests of this folder were asked for, and none by name or marker."""
    chosen = ("keyword", "markexpr", "deselect", "lf", "failedfirst", "maxfail", "ignore")
    folders = [Path(argument).resolve() for argument in config.args]
    return folders == [HERE] and not any(config.getoption(name, None) for name in chosen)


def write_counts(sentence: str, table: list[str]) -> None:
    """Replace the sentence on the last run and the table of counts in the docs."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(LAST_RUN)
    lines = rest.partition(TABLE)[2].split("\n")
    after = next(i for i, line in enumerate(lines) if i and not line.startswith("|"))
    text = "\n".join([head + sentence, "", *table, *lines[after:]])
    PAGE.write_text(text, encoding="utf-8")
