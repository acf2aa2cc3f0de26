"""Array types, checks of scores, and the outcome of a metric on each example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrapose.errors import InputError

FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.integer[Any]]


def widen(scores: ArrayLike, *, present: BoolArray | None = None) -> FloatArray:
    """Convert scores to float32 or wider, so that no comparison is made on rounded numbers.

    Args:
        scores: any real numbers; float16 becomes float32, integers become float64.
        present: where a score stands; elsewhere anything may stand (padding).

    Raises:
        InputError: a score that is present is NaN.
    """
    array = np.asarray(scores)
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    elif not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    missing = np.isnan(array)
    if present is not None:
        missing &= present
    if missing.any():
        first = tuple(int(i) for i in np.argwhere(missing)[0])
        raise InputError(
            f"{int(missing.sum())} of {array.size} scores are NaN, the first at {first}; "
            "score those pairs again or leave the examples out."
        )
    return array


ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""Relative difference of derived scores that rounding alone can make."""


def merge_ties(scores: FloatArray, magnitude: ArrayLike) -> FloatArray:
    """Make derived scores equal along the last axis where they differ by rounding alone.

    Where the formula on paper gives a tie, the order of additions must not decide it.

    Args:
        scores: (…, n) float64 scores; NaN stays.
        magnitude: (…, 1) or one number, the size of what the scores were computed from.
    """
    if scores.shape[-1] < 2 or not scores.size:
        return scores
    order = np.argsort(scores, axis=-1, kind="stable")
    ascending = np.take_along_axis(scores, order, axis=-1)
    with np.errstate(invalid="ignore"):
        near = np.diff(ascending, axis=-1) <= ROUNDING * np.asarray(magnitude)
    first = np.arange(scores.shape[-1]) * np.concatenate(
        [np.ones((*near.shape[:-1], 1), dtype=np.bool_), ~near], axis=-1
    )
    first = np.maximum.accumulate(first, axis=-1)
    merged = np.empty_like(scores)
    np.put_along_axis(merged, order, np.take_along_axis(ascending, first, axis=-1), axis=-1)
    return merged


def require_finite(values: ArrayLike, what: str) -> FloatArray:
    """Convert values to float64, and check that all are finite.

    Raises:
        InputError: one of them is NaN or infinite; `what` names them.
    """
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        bad = int(np.count_nonzero(~np.isfinite(array)))
        raise InputError(f"{bad} of {array.size} {what} are NaN or infinite.")
    return array


def require_shape(array: FloatArray, shape: tuple[int | None, ...], what: str) -> FloatArray:
    """Return the array if it has this shape; None stands for any length.

    Raises:
        InputError: it has another shape.
    """
    fits = array.ndim == len(shape) and all(
        want is None or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = " × ".join("any" if n is None else str(n) for n in shape)
        raise InputError(f"{what} must be of shape {wanted}, not {array.shape}.")
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Outcome of one metric on each of k examples.

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


def binary_outcome(wins: BoolArray, ties: BoolArray, chance: float | None) -> Outcome:
    """Outcome of a metric that is 0 or 1."""
    return Outcome(wins.astype(np.float64), ties, chance)


def real_outcome(values: FloatArray, chance: float | None = None) -> Outcome:
    """Outcome of a real-valued metric, without ties."""
    return Outcome(values.astype(np.float64), np.zeros(values.shape, dtype=np.bool_), chance)
