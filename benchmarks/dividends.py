"""Exact dividends of many games at once, against shapiq's exact Möbius transform.

    python benchmarks/dividends.py [--players 10 12 15] [--rounds 5]

Both get the same tables of random values. Ours takes all games of a round in one call, 1,000 of
them at 10 players; shapiq takes one after the other, as it does, and as few as its time asks for.
The values of a game are looked up before its clock starts. Prints milliseconds a game, their ratio
and how far the dividends are apart. `pip install shapiq` for the other side; without it, ours alone
is timed.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from contrapose.metrics.dividends import moebius

Values = NDArray[np.float64]

GAMES = {10: 1_000, 12: 250, 15: 30}
"""Games a call, by number of players; others get as many as make a million values."""

THEIRS = {10: 10, 12: 3, 15: 1}
"""Games that shapiq is given."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--players", type=int, nargs="+", default=[10, 12, 15])
    arguments.add_argument("--rounds", type=int, default=5, help="ours is the median of these")
    options = arguments.parse_args()
    shapiq = import_module("shapiq") if find_spec("shapiq") else None
    if shapiq is None:
        print("shapiq is not installed (pip install shapiq): ours alone is timed.")
    print(
        f"{'players':>7} {'games':>6} {'ours, ms':>10} {'shapiq, ms':>11} {'ratio':>9} {'apart':>8}"
    )
    for players in options.players:
        games = GAMES.get(players, max(1, 10**6 >> players))
        values = np.random.default_rng(players).normal(size=(games, 2**players))
        ours = ours_ms(values, options.rounds)
        line = f"{players:>7} {games:>6} {ours:>10.4f}"
        if shapiq is not None:
            theirs, apart = theirs_ms(shapiq, values[: THEIRS.get(players, 1)])
            line += f" {theirs:>11.2f} {theirs / ours:>8.0f}× {apart:>8.0e}"
        print(line)


def ours_ms(values: Values, rounds: int) -> float:
    """Milliseconds a game, the median of some rounds after one that warms up."""
    moebius(values)
    spent = []
    for _ in range(rounds):
        start = time.perf_counter()
        moebius(values)
        spent.append(1e3 * (time.perf_counter() - start))
    return float(np.median(spent)) / len(values)


def theirs_ms(shapiq: Any, values: Values) -> tuple[float, float]:
    """Milliseconds a game, and the largest difference from ours."""
    players = values.shape[1].bit_length() - 1
    places = 1 << np.arange(players)
    spent, apart = 0.0, 0.0
    for table in values:
        computer = shapiq.ExactComputer(
            lambda coalitions, table=table: table[coalitions @ places],
            players,
            evaluate_game=True,
        )
        start = time.perf_counter()
        found = computer.moebius_transform
        spent += 1e3 * (time.perf_counter() - start)
        ours = moebius(table)
        for interaction, place in found.interaction_lookup.items():
            mask = sum(1 << player for player in interaction)
            apart = max(apart, abs(float(ours[mask] - found.values[place])))
    return spent / len(values), apart


if __name__ == "__main__":
    main()
