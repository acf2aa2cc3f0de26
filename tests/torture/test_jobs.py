"""Kills at random instants and full disks: every verb ends with the table of a run in peace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torture.conftest import Tally
from tests.torture.mutations import SEED

KILLS = int(os.environ.get("KILL_ROUNDS", "1"))
"""Kills of each job; the whole suite asks for more."""
ROOT = Path(__file__).resolve().parents[2]
JOBS = ("eval", "served", "tune", "build", "index", "fetch")
QUICK = ("build",)
"""Job of the small part; the tests of the other verbs kill theirs."""


def torture(job: str, folder: Path) -> dict[str, int]:
    words = [sys.executable, "-m", "tests.torture.jobs", "both", str(folder), str(KILLS)]
    done = subprocess.run(  # noqa: S603 - the program beside this file
        [*words, f"{SEED}{job}", job], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])[job]
    return counts


@pytest.mark.parametrize("job", JOBS if KILLS > 1 else QUICK)
def test_kills_and_full_disks_change_no_result(job: str, tmp_path: Path, tally: Tally) -> None:
    counts = torture(job, tmp_path)
    assert counts["kills"] == KILLS
    assert counts["refused"]
    tally.add(f"kills of {job}", counts["kills"])
    tally.add("results after kills, equal to those in peace", counts["results"])
    tally.add("disks that were too small", counts["refused"])
    if job == "eval":
        tally.add("stores that four evaluations wrote at once", counts["together"])
    if job == "served":
        assert counts["in flight"] > 4
        tally.add("stored answers that were not asked for again", counts["stored"])
