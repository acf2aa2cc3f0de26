"""Selection of α: the exact accuracy curve, its optimum, and cross-validation by halves.

Lin et al. (2024, section 5) sample half of the data, choose α there, report the other half, repeat
ten times, and give mean and standard deviation. α chosen on the data that it is scored on is an
oracle's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.alpha.intervals import AlphaIntervals
from contrapose.metrics.statistics.resampling import cluster_codes
from contrapose.metrics.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class AlphaOptimum:
    """Optimal α on the data it was chosen on, and the segment on which it is optimal.

    Attributes:
        alpha: the middle of the widest open segment of best accuracy.
        accuracy: the accuracy there.
        lower: where that segment begins.
        upper: where it ends.
    """

    alpha: float
    accuracy: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, eq=False)
class AlphaCurve:
    """Accuracy as a step function of α.

    Attributes:
        lower: the lower ends of all non-empty intervals, sorted.
        upper: the upper ends, sorted.
        entered: entered[i] is the weight of the intervals with the i lowest lower ends.
        left: left[i] is the weight of the intervals with the i lowest upper ends.
        total: the weight of all examples.
    """

    lower: FloatArray
    upper: FloatArray
    entered: FloatArray
    left: FloatArray
    total: float

    def points(self, grid: ArrayLike) -> FloatArray:
        """Accuracy at each α of a grid: intervals that have begun less those that have ended.

        Intervals are open, so one that begins or ends exactly at α does not hold there.
        """
        alphas = np.asarray(grid, dtype=np.float64)
        begun = self.entered[np.searchsorted(self.lower, alphas, side="left")]
        ended = self.left[np.searchsorted(self.upper, alphas, side="right")]
        return np.asarray((begun - ended) / self.total)

    def at(self, alpha: float) -> float:
        """Accuracy at one α."""
        return float(self.points(alpha))

    def segments(self) -> FloatArray:
        """End points of the open segments of [0, 1] on which the accuracy is constant."""
        ends = np.concatenate([self.lower, self.upper])
        return np.concatenate([[0.0], np.unique(ends[(ends > 0) & (ends < 1)]), [1.0]])

    def best(self) -> AlphaOptimum:
        """Optimal α: the middle of the widest best segment in [0, 1]; of equals the first.

        No single point can do better than the segments beside it: an example that is right at a
        point is right around it.
        """
        ends = self.segments()
        middles = (ends[:-1] + ends[1:]) / 2
        values = self.points(middles)
        widths = np.where(values == values.max(), np.diff(ends), -1.0)
        i = int(widths.argmax())
        return AlphaOptimum(float(middles[i]), float(values[i]), float(ends[i]), float(ends[i + 1]))


def sweep(lower: ArrayLike, upper: ArrayLike, weights: ArrayLike | None = None) -> AlphaCurve:
    """Compute the accuracy as a function of α from the examples' intervals; O(k log k).

    Args:
        lower: (k,) or (k, u) as in `AlphaIntervals`.
        upper: shaped alike.
        weights: (k,) of the examples; None counts each alike. Weights of 1/(groups × size of the
            example's group) give a macro average.

    Raises:
        InputError: there are no examples, or shapes do not fit.
    """
    low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    if low.shape != high.shape or low.ndim not in (1, 2) or not low.size:
        raise InputError(f"intervals of shape {low.shape} and {high.shape} cannot be swept.")
    share = np.ones(len(low)) if weights is None else np.asarray(weights, dtype=np.float64)
    if share.shape != (len(low),):
        raise InputError(f"{len(low)} examples but {share.shape} weights.")
    interval_weights = share if low.ndim == 1 else np.broadcast_to(share[:, None], low.shape)
    alive = low < high
    low, high, interval_weights = low[alive], high[alive], interval_weights[alive]
    begin, end = np.argsort(low, kind="stable"), np.argsort(high, kind="stable")
    return AlphaCurve(
        lower=low[begin],
        upper=high[end],
        entered=np.concatenate([[0.0], np.cumsum(interval_weights[begin])]),
        left=np.concatenate([[0.0], np.cumsum(interval_weights[end])]),
        total=float(share.sum()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutMeans:
    """Mean outcome of each example over the repeats that held it out.

    Attributes:
        mean: (k,) its mean outcome; NaN for an example that was never held out.
        count: (k,) how often it was held out.
    """

    mean: FloatArray
    count: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class CrossValidation:
    """Cross-validated accuracy, with α chosen on the other half.

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
    held_out: HeldOutMeans
    scored: BoolArray


def cross_validate(
    intervals: AlphaIntervals,
    clusters: IntArray | None = None,
    repeats: int = 10,
    seed: int = 0,
    weights: ArrayLike | None = None,
) -> CrossValidation:
    """Cross-validate α: choose it on a random half, score it on the other; repeat.

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
    return CrossValidation(
        mean=float(values.mean()),
        std=float(values.std(ddof=1)) if repeats > 1 else 0.0,
        alphas=alphas,
        values=values,
        held_out=HeldOutMeans(mean, count),
        scored=halves,
    )
