"""α chosen on one half of the examples and scored on the other, several times.

Lin et al. (2024, section 5) sample half of the data, choose α there, report the other half, repeat
ten times, and give mean and standard deviation. α chosen on the data that it is scored on is an
oracle's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.alpha.intervals import Intervals
from contrapose.metrics.alpha.sweep import sweep
from contrapose.metrics.statistics.units import cluster_codes
from contrapose.metrics.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """What each example got when it was not used to choose α.

    Attributes:
        mean: (k,) its mean outcome; NaN for an example that was never held out.
        count: (k,) how often it was held out.
    """

    mean: FloatArray
    count: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class CrossValidated:
    """Accuracy with α chosen on held-out data.

    Attributes:
        mean: mean of `values`.
        std: their standard deviation (n − 1 in the denominator; 0 for a single repeat).
        alphas: (repeats,) the α chosen each time.
        values: (repeats,) the accuracy on the half that it was not chosen on.
        held_out: the same, example by example.
        scored: (repeats, k) the half that each α was scored on.
    """

    mean: float
    std: float
    alphas: FloatArray
    values: FloatArray
    held_out: HeldOut
    scored: BoolArray


def cross_validate(
    intervals: Intervals,
    clusters: IntArray | None = None,
    repeats: int = 10,
    seed: int = 0,
    weights: ArrayLike | None = None,
) -> CrossValidated:
    """Choose α on a random half, score it on the other; repeat.

    Args:
        intervals: where each example is right.
        clusters: (k,) codes ≥ 0; examples with one code fall into the same half.
        repeats: how often.
        seed: of the random halves.
        weights: (k,) of the examples, as in `sweep`.

    Raises:
        InputError: there are fewer than two examples (or clusters) to part.
    """
    k = len(intervals.lower)
    codes, size = cluster_codes(clusters, k)
    if size < 2 or repeats < 1:
        raise InputError(
            f"{size} independent examples cannot be parted {repeats} times into two halves."
        )
    share = np.ones(k) if weights is None else np.asarray(weights, dtype=np.float64)
    rng = np.random.default_rng(seed)
    alphas, values = np.empty(repeats), np.empty(repeats)
    halves = np.empty((repeats, k), dtype=np.bool_)
    right = np.zeros(k)
    for i in range(repeats):
        units = np.ones(size, dtype=np.bool_)
        units[rng.permutation(size)[: size // 2]] = False
        halves[i] = scored = units if codes is None else units[codes]
        chosen = intervals.only(~scored)
        alphas[i] = sweep(chosen.lower, chosen.upper, share[~scored]).best().alpha
        outcome = intervals.right_at(float(alphas[i]))
        values[i] = np.average(outcome[scored], weights=share[scored])
        right += outcome & scored
    count = halves.sum(axis=0)
    mean = np.divide(right, count, out=np.full(k, np.nan), where=count > 0)
    return CrossValidated(
        mean=float(values.mean()),
        std=float(values.std(ddof=1)) if repeats > 1 else 0.0,
        alphas=alphas,
        values=values,
        held_out=HeldOut(mean, count),
        scored=halves,
    )
