"""The kinds of array the metrics speak in, and the checks every score passes first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrapose.errors import InputError

FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.integer[Any]]


def wide(scores: ArrayLike, *, present: BoolArray | None = None) -> FloatArray:
    """Give scores as float32 or wider, so that no comparison is made on rounded numbers.

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


def finite(values: ArrayLike, what: str) -> FloatArray:
    """Give values as float64, all finite.

    Raises:
        InputError: one of them is NaN or infinite; `what` names them.
    """
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        bad = int(np.count_nonzero(~np.isfinite(array)))
        raise InputError(f"{bad} of {array.size} {what} are NaN or infinite.")
    return array


def of_shape(array: FloatArray, shape: tuple[int | None, ...], what: str) -> FloatArray:
    """Give the array back when it has this shape; None stands for any length.

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
