"""Accuracy as a function of α, exactly: piecewise constant, with steps at the intervals' ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.types import FloatArray


@dataclass(frozen=True, slots=True)
class Best:
    """The α with the highest accuracy on the data it was chosen on.

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
class Curve:
    """Accuracy at every α.

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
        """The accuracy at each α of a grid: intervals that have begun less those that have ended.

        Intervals are open, so one that begins or ends exactly at α does not hold there.
        """
        alphas = np.asarray(grid, dtype=np.float64)
        begun = self.entered[np.searchsorted(self.lower, alphas, side="left")]
        ended = self.left[np.searchsorted(self.upper, alphas, side="right")]
        return np.asarray((begun - ended) / self.total)

    def at(self, alpha: float) -> float:
        """The accuracy at one α."""
        return float(self.points(alpha))

    def segments(self) -> FloatArray:
        """The ends of the open segments of [0, 1] on which the accuracy is constant."""
        ends = np.concatenate([self.lower, self.upper])
        return np.concatenate([[0.0], np.unique(ends[(ends > 0) & (ends < 1)]), [1.0]])

    def best(self) -> Best:
        """The middle of the widest segment of best accuracy in [0, 1]; of equals the first.

        No single point can do better than the segments beside it: an example that is right at a
        point is right around it.
        """
        ends = self.segments()
        middles = (ends[:-1] + ends[1:]) / 2
        values = self.points(middles)
        widths = np.where(values == values.max(), np.diff(ends), -1.0)
        i = int(widths.argmax())
        return Best(float(middles[i]), float(values[i]), float(ends[i]), float(ends[i + 1]))


def sweep(lower: ArrayLike, upper: ArrayLike, weights: ArrayLike | None = None) -> Curve:
    """The accuracy as a function of α, from where each example is right; O(k log k).

    Args:
        lower: (k,) or (k, u) as in `Intervals`.
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
    each = share if low.ndim == 1 else np.broadcast_to(share[:, None], low.shape)
    alive = low < high
    low, high, each = low[alive], high[alive], each[alive]
    begin, end = np.argsort(low, kind="stable"), np.argsort(high, kind="stable")
    return Curve(
        lower=low[begin],
        upper=high[end],
        entered=np.concatenate([[0.0], np.cumsum(each[begin])]),
        left=np.concatenate([[0.0], np.cumsum(each[end])]),
        total=float(share.sum()),
    )
