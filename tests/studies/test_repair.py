"""The study of repairs: when a claim is confirmed, and that it runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from studies.repair import METHODS, judge, main, table

from contrapose.tune.bill.measure import Line

K = 200


def lines(**values: float) -> dict[str, Line]:
    """Shares and numbers that every example has alike, as far as that can be."""
    found = {}
    for name, value in values.items():
        if name in ("right_score", "equivariance_sd"):
            random = np.random.default_rng(0).normal(size=K)
            random = (random - random.mean()) / random.std()
            made = random * value if name == "equivariance_sd" else value + 0.01 * random
            found[name] = Line(name, made, binary=False, spread=name == "equivariance_sd")
        else:
            found[name] = Line(name, (np.arange(K) < value * K).astype(np.float64))
    return found


BEFORE = lines(swaps=0.5, brittleness=0.2, right_score=0.5, group=0.1, equivariance_sd=1.0)
AS_CLAIMED = {
    "plain": lines(swaps=0.5, brittleness=0.2, right_score=0.5, group=0.1, equivariance_sd=1.0),
    "hn": lines(swaps=0.9, brittleness=0.4, right_score=0.3, group=0.2, equivariance_sd=1.0),
    "hp+hn": lines(swaps=0.85, brittleness=0.2, right_score=0.45, group=0.2, equivariance_sd=1.0),
    "eqsim": lines(swaps=0.5, brittleness=0.2, right_score=0.5, group=0.3, equivariance_sd=0.5),
    "eqsim+hn": lines(swaps=0.9, brittleness=0.3, right_score=0.4, group=0.3, equivariance_sd=0.5),
}


def verdicts(**runs: Sequence[dict[str, Line]]) -> list[str]:
    found = {name: [AS_CLAIMED[name]] * 2 for name in METHODS} | runs
    return [each.verdict for each in judge(BEFORE, found)]


def test_as_claimed() -> None:
    assert verdicts() == ["confirmed"] * 7


def test_the_contrary() -> None:
    worse = lines(swaps=0.2, brittleness=0.1, right_score=0.5, group=0.0, equivariance_sd=2.0)
    found = verdicts(hn=[worse] * 2, eqsim=[worse] * 2)
    assert found[:3] == ["refuted", "refuted", "open"]
    assert found[3:] == ["refuted"] * 4


def test_seeds_that_disagree_leave_it_open() -> None:
    worse = AS_CLAIMED["hn"] | lines(swaps=0.49)
    assert verdicts(hn=[AS_CLAIMED["hn"], worse])[0] == "open"


def test_no_difference_is_open() -> None:
    assert verdicts(hn=[AS_CLAIMED["plain"]] * 2)[0] == "open"


def test_the_table() -> None:
    said = table(BEFORE, {name: [AS_CLAIMED[name]] * 2 for name in METHODS})
    row = next(line for line in said.splitlines() if line.startswith("swaps"))
    assert "0.500" in row
    assert "0.900 ± 0.000" in row


def test_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(
        ["--seeds", "2", "--steps", "1", "--batch", "4", "--scenes", "5", "--examples", "2",
         "--device", "cpu", "--workers", "1", "--out", str(tmp_path / "all.json")]
    )  # fmt: skip
    said = capsys.readouterr().out
    assert said.count("HP+HN") >= 3
    assert "in all" in said
    written = json.loads((tmp_path / "all.json").read_text())
    assert set(written["after"]) == set(METHODS)
    assert len(written["claims"]) == 7
