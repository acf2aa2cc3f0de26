"""What one metric says of each example."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contrapose.metrics.types import BoolArray, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One metric's answer for each of k examples.

    Attributes:
        values: (k,) float64; 0 or 1 where the metric decides, else a real number.
        ties: (k,) true where a comparison that decides the example is a tie.
        chance: mean over the examples of the exact chance level, that is of the metric's
            expectation when all scores are independent draws from one continuous distribution;
            None where there is no such number.
    """

    values: FloatArray
    ties: BoolArray
    chance: float | None

    def mean(self) -> float:
        """The mean over the examples; NaN when there are none."""
        return float(self.values.mean()) if self.values.size else float("nan")

    def tie_rate(self) -> float:
        """The share of examples with a tie; NaN when there are none."""
        return float(self.ties.mean()) if self.ties.size else float("nan")


def decided(wins: BoolArray, ties: BoolArray, chance: float | None) -> Outcome:
    """An outcome of 0s and 1s."""
    return Outcome(wins.astype(np.float64), ties, chance)


def measured(values: FloatArray, chance: float | None = None) -> Outcome:
    """An outcome of real numbers, which knows no ties."""
    return Outcome(values.astype(np.float64), np.zeros(values.shape, dtype=np.bool_), chance)
