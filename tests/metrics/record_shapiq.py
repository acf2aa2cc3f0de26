"""Record what shapiq makes of random games: `python record_shapiq.py > shapiq.json`.

shapiq brings numba, matplotlib and pandas with it, so the tests compare with this record instead
of installing it. `pip install shapiq==1.4.1` in a virtual environment of its own to make it anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import shapiq
from numpy.typing import NDArray

Coalitions = NDArray[np.bool_]
Values = NDArray[np.float64]


def mask(players: tuple[int, ...]) -> int:
    return sum(1 << player for player in players)


def exact(game: Callable[[Coalitions], Values], players: int) -> Any:
    return shapiq.ExactComputer(game, players)


def of_one_set(players: int, rng: np.random.Generator) -> dict[str, object]:
    table = rng.normal(size=2**players).round(3)

    def game(coalitions: Coalitions) -> Values:
        return np.asarray(table[coalitions @ (1 << np.arange(players))])

    found = exact(game, players)
    moebius = [0.0] * 2**players
    for interaction, place in found("Moebius").interaction_lookup.items():
        moebius[mask(interaction)] = float(found("Moebius").values[place])
    record: dict[str, object] = {"values": table.tolist(), "dividends": moebius}
    for order in (1, 2):
        if order <= players:
            index = exact(game, players)("SII", order)
            record[f"interactions_{order}"] = {
                str(mask(interaction)): float(index.values[place])
                for interaction, place in index.interaction_lookup.items()
                if len(interaction) == order
            }
    return record


def of_two_sets(a: int, b: int, rng: np.random.Generator) -> dict[str, object]:
    table = rng.normal(size=(2**a, 2**b)).round(3)

    def game(coalitions: Coalitions) -> Values:
        first = coalitions[:, :a] @ (1 << np.arange(a))
        second = coalitions[:, a:] @ (1 << np.arange(b))
        return np.asarray(table[first, second])

    found = exact(game, a + b)("Moebius")
    moebius = np.zeros((2**a, 2**b))
    for interaction, place in found.interaction_lookup.items():
        first = mask(tuple(player for player in interaction if player < a))
        second = mask(tuple(player - a for player in interaction if player >= a))
        moebius[first, second] = found.values[place]
    return {"values": table.tolist(), "dividends": moebius.tolist()}


def main() -> None:
    rng = np.random.default_rng(20240613)
    record = {
        "shapiq": version("shapiq"),
        "one_set": [of_one_set(players, rng) for players in range(1, 9)],
        "two_sets": [of_two_sets(a, b, rng) for a, b in ((1, 1), (2, 2), (2, 3), (3, 2), (4, 4))],
    }
    json.dump(record, sys.stdout, indent=None)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
