"""Kills and signals at random instants, full disks: verbs end with the result of a run in peace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torture.conftest import Tally
from tests.torture.mutations import KILLS, SEED

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = (
    *("eval", "metrics", "compare", "rank", "audit", "diagnose", "explain", "tune", "index"),
    *("build scenes", "build pairs", "build features", "fetch"),
)
"""Commands of `interrupts.py`, which imports too much for a test to import it."""
SERVERS = ("view", "serve")
LONGEST = 1800
"""Seconds after which a job hangs; in peace the longest takes two minutes."""
JOBS = ("eval", "served", "tune", "build", "index", "fetch")
QUICK = ("build",)
"""Job of the small part; the tests of the other verbs kill theirs."""


def torture(program: str, job: str, *words: object) -> dict[str, int]:
    """Counts of a program beside this file, for one job."""
    process = subprocess.Popen(  # noqa: S603 - the program beside this file
        [sys.executable, "-m", f"tests.torture.{program}", *map(str, words), f"{SEED}{job}", job],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    try:
        printed, said = process.communicate(timeout=LONGEST)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)  # with the processes that it forked
        said = process.communicate()[1]
        if isinstance(error, subprocess.TimeoutExpired):
            raise AssertionError(f"not done in {LONGEST} s: {said[-3000:]}") from None
        raise
    assert process.returncode == 0, said[-3000:]
    counts: dict[str, int] = json.loads(printed.splitlines()[-1])[job]
    return counts


@pytest.mark.parametrize("job", JOBS if KILLS > 1 else QUICK)
def test_kills_and_full_disks_change_no_result(job: str, tmp_path: Path, tally: Tally) -> None:
    counts = torture("jobs", job, "both", tmp_path, KILLS)
    assert counts["kills"] == KILLS
    assert counts["refused"]
    tally.add(f"kills of `{job}`", counts["kills"])
    tally.add("results after kills, equal to those in peace", counts["results"])
    tally.add("disks that were too small", counts["refused"])
    if job == "eval":
        tally.add("stores that four evaluations wrote at once", counts["together"])
    if job == "served":
        assert counts["in flight"] > 4
        tally.add("stored answers that were not asked for again", counts["stored"])


@pytest.mark.skipif(KILLS < 2, reason="a part of make torture; tests/cli/test_app.py has signals")
@pytest.mark.parametrize("command", [*COMMANDS, *SERVERS])
def test_interrupts_leave_nothing_half_written(command: str, tmp_path: Path, tally: Tally) -> None:
    counts = torture("interrupts", command, tmp_path / "x", -(-KILLS // 4))
    tally.add("interrupts of commands by signals", counts["interrupts"])
    tally.add("results after interrupts, equal to those in peace", counts["results"])
