"""The study of repairs: when a claim is confirmed, and that it runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from studies import repair, repair_log
from studies.repair import main
from studies.repair_claims import Line, judge, table
from studies.repair_kept import once

K = 200
LOGS = Path(repair_log.__file__).parent / "logs"
METHODS = ("plain", "hn", "hp+hn", "eqsim", "eqsim+hn")


def lines(**values: float) -> dict[str, Line]:
    """Shares and numbers that every example has alike, as far as that can be."""
    found = {}
    for name, value in values.items():
        if name in ("right_score", "equivariance_sd"):
            random = np.random.default_rng(0).normal(size=K)
            random = (random - random.mean()) / random.std()
            made = random * value if name == "equivariance_sd" else value + 0.01 * random
            found[name] = Line(name, made, spread=name == "equivariance_sd")
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


SMALL = [
    "--steps", "1", "--batch", "4", "--scenes", "5", "--examples", "2", "--device", "cpu",
    "--workers", "1", "--kinds", "replace",
]  # fmt: skip


def test_it_runs_and_is_not_trained_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [*SMALL, "--seeds", "2", "--keep", str(tmp_path), "--out", str(tmp_path / "all.json")]
    main(asked)
    said = capsys.readouterr().out
    assert said.count("HP+HN") >= 3
    assert "in all" in said
    written = json.loads((tmp_path / "all.json").read_text())
    (point,) = written["points"]
    assert set(point["after"]) == set(METHODS)
    assert len(point["claims"]) == 7
    assert {len(runs) for runs in point["after"].values()} == {2}

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("taught again")

    monkeypatch.setattr(repair, "train", refused)
    main(asked)
    assert json.loads((tmp_path / "all.json").read_text()) == written


def test_forms_of_eqsim_and_other_objectives(capsys: pytest.CaptureFixture[str]) -> None:
    main([*SMALL, "--seeds", "1", "--only", "hp-even+hn", "eqsim=4"])
    said = capsys.readouterr().out
    assert "hp-even+hn" in said
    assert "confirmed" not in said


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    calls = []

    def made() -> dict[str, Line]:
        calls.append(1)
        return {
            "swaps": Line("swaps", np.array([0.0, 1.0]), clusters=np.array([3, 3])),
            "equivariance_sd": Line("equivariance_sd", np.array([0.1, 0.7]), "lower", spread=True),
        }

    first, second = (once(tmp_path, ("one", 2), made) for _ in range(2))
    assert len(calls) == 1
    assert list(first) == list(second)
    for name, line in first.items():
        other = second[name]
        assert line.value == other.value
        assert (line.better, line.spread) == (other.better, other.spread)
    assert second["swaps"].clusters is not None
    once(tmp_path, ("one", 3), made)
    assert len(calls) == 2


LOG = """a point: scenes: 3.0 s
before; swaps 0.500, brittleness 0.100, right_score 0.500, group 0.100, equivariance_sd 0.600: 1.0 s
a point, seed 0, plain; swaps 0.50, brittleness 0.10, right_score 0.40, group 0.10, equivariance_sd 0.70: 9.1 s
a point, seed 1, plain: contrast 1.3; swaps 0.52, brittleness 0.12, right_score 0.41, group 0.12, equivariance_sd 0.72: 9.2 s
a point, seed 1, hn; swaps 0.72, brittleness 0.12, right_score 0.31, group 0.12, equivariance_sd 0.72: 9.3 s
a point, seed 0, hn; swaps 0.71, brittleness 0.11, right_score 0.32, group 0.10, equivariance_sd 0.70: 9.4 s
a point, seed 0, hp+hn; swaps 0.70, brittleness 0.05, right_score 0.45, group 0.10, equivariance_sd 0.70: 9.5 s
a point, seed 1, hp+hn; swaps 0.70, brittleness 0.06, right_score 0.44, group 0.12, equivariance_sd 0.72: 9.6 s
"""  # noqa: E501 - as it is logged


def test_a_log_is_judged_over_its_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, points = repair_log.read(LOG)
    assert before["right_score"] == 0.5
    runs = points["a point"]
    assert runs["plain"][1]["swaps"] == 0.52
    claims = repair_log.judge(before, runs)
    verdicts = [each.verdict for each in claims]
    assert verdicts == ["confirmed", "open", "open", "confirmed", "confirmed"]
    gain = claims[0]
    assert gain.difference == pytest.approx(0.205)
    assert gain.low == pytest.approx(0.205 - 12.706 * 0.0070711 / 2**0.5, abs=1e-4)
    (tmp_path / "log.txt").write_text(LOG)
    repair_log.main([str(tmp_path / "log.txt")])
    assert "0.510 ± 0.014" in capsys.readouterr().out


def test_the_logs_in_the_repository_are_read() -> None:
    before, points = repair_log.read((LOGS / "repair.txt").read_text())
    ((_, runs),) = points.items()
    assert {len(seeds) for seeds in runs.values()} == {3}
    assert set(runs) == {"plain", "hn", "hp+hn", "eqsim=4", "eqsim=4+hn"}
    assert len(repair_log.judge(before, runs)) == 7
