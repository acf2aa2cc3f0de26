"""What a log of `studies/repair.py` says: for runs that did not come to their tables.

    python studies/repair_log.py studies/logs/repair.txt

Prints the measures that are logged, mean over seeds ± standard deviation, and the claims, each with
a 95 % interval of Student's t over the seeds. So the seeds are what varies here, and the panel is
taken as it is; the study itself draws the panel's examples anew and asks the seeds to agree.
"""

from __future__ import annotations

import math
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from studies.repair_claims import MOST, TOLD, Judged

LINE = re.compile(
    r"^(?P<point>.+), seed (?P<seed>\d+), (?P<method>[^:;]+)(:[^;]*)?; (?P<said>[^:;]+): [\d.]+ s$"
)
BEFORE = re.compile(r"^before; (?P<said>[^:;]+)")
T95 = (math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t, 97.5 %, by degrees of freedom."""

Values = dict[str, float]
Runs = dict[str, dict[int, Values]]


def main(files: Sequence[str] | None = None) -> None:
    """Read logs, print tables and claims."""
    for file in sys.argv[1:] if files is None else files:
        before, points = read(Path(file).read_text(encoding="utf-8"))
        for point, runs in points.items():
            print(f"\n{point}\n\n{table(before, runs)}")
            if min(len(seeds) for seeds in runs.values()) > 1:
                print("\n" + "\n".join(each.said() for each in judge(before, runs)))


def read(log: str) -> tuple[Values, dict[str, Runs]]:
    """What was measured before; and after, by point, method and seed."""
    before: Values = {}
    points: dict[str, Runs] = {}
    for line in log.splitlines():
        if found := LINE.match(line):
            runs = points.setdefault(found["point"], {})
            runs.setdefault(found["method"], {})[int(found["seed"])] = _values(found["said"])
        elif found := BEFORE.match(line):
            before = _values(found["said"])
    return before, points


def table(before: Values, runs: Runs) -> str:
    """Methods down, measures across."""
    lines = [f"{'':<16}" + "".join(f"{name:>18}" for name in TOLD)]
    if before:
        lines.append(f"{'before':<16}" + "".join(f"{before[name]:>18.3f}" for name in TOLD))
    for method, seeds in runs.items():
        cells = []
        for name in TOLD:
            values = [values[name] for values in seeds.values()]
            spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.3f}{spread}")
        lines.append(f"{method:<16}" + "".join(f"{cell:>18}" for cell in cells))
    return "\n".join(lines)


def judge(before: Values, runs: Runs) -> list[Judged]:
    """The claims that the log has the methods for."""
    judged = []
    if {"plain", "hn"} <= set(runs):
        judged += [
            _claim("1. HN raises accuracy on swaps", _less(runs, "swaps", "plain", "hn")),
            _claim("2. HN raises brittleness", _less(runs, "brittleness", "plain", "hn")),
        ]
    if {"plain", "hn", "hp+hn"} <= set(runs):
        kept = [
            both - (1 - MOST) * plain - MOST * hard
            for plain, hard, both in zip(
                *(_column(runs, method, "swaps") for method in ("plain", "hn", "hp+hn")),
                strict=True,
            )
        ]
        judged.append(_claim(f"3. HP+HN keeps {MOST:.0%} or more of HN's gain on swaps", kept))
        judged.append(
            _claim("4. HP+HN is less brittle than HN", _less(runs, "brittleness", "hp+hn", "hn"))
        )
        if before:
            first = before["right_score"]
            hard, both = (_column(runs, it, "right_score") for it in ("hn", "hp+hn"))
            closer = [abs(a - first) - abs(b - first) for a, b in zip(hard, both, strict=True)]
            judged.append(_claim("5. HP+HN moves the right caption's score less than HN", closer))
    for form in (name for name in runs if name.startswith("eqsim") and "+" not in name):
        group, spread = (
            _less(runs, "group", "plain", form),
            _less(runs, "equivariance_sd", form, "plain"),
        )
        judged.append(_claim(f"6. EqSim ({form}) raises the group score", group))
        judged.append(_claim(f"7. EqSim ({form}) tightens the equivariance", spread))
    return judged


def _claim(claim: str, by_seed: Sequence[float]) -> Judged:
    """Confirmed above 0, refuted below, open otherwise, by the interval over seeds."""
    mean = statistics.mean(by_seed)
    wide = math.inf
    if 1 < len(by_seed) <= len(T95):
        wide = T95[len(by_seed) - 1] * statistics.stdev(by_seed) / math.sqrt(len(by_seed))
    verdict = "confirmed" if mean - wide > 0 else "refuted" if mean + wide < 0 else "open"
    return Judged(claim, mean, mean - wide, mean + wide, tuple(by_seed), verdict)


def _column(runs: Runs, method: str, name: str) -> list[float]:
    return [runs[method][seed][name] for seed in sorted(runs[method])]


def _less(runs: Mapping[str, dict[int, Values]], name: str, low: str, high: str) -> list[float]:
    """Seed by seed, by how much a measure is larger with one method than with another."""
    lows, highs = (_column(dict(runs), method, name) for method in (low, high))
    return [b - a for a, b in zip(lows, highs, strict=True)]


def _values(said: str) -> Values:
    pairs = (part.rsplit(" ", 1) for part in said.split(" PARTS", maxsplit=1)[0].split(", "))
    return {name: float(value) for name, value in pairs}


if __name__ == "__main__":
    main()
