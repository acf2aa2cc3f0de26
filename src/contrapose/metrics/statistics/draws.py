"""How often each of n units is drawn, in a bootstrap resample of n.

The counts follow the multinomial distribution over n equally likely units. Drawing n indices and
counting them costs about seven nanoseconds a draw, most of it random access. Above a thousand units
the counts are therefore made the other way round, with the same distribution:

1. Independent Poisson(λ) counts, given their sum N, are multinomial over N draws. λ is a little
   below 1, so that N < n (a resample with N > n is drawn again: given N nothing else changes).
2. The n − N draws still missing are drawn as indices.

A Poisson count is read off 16 random bits: `count ≥ j` where the bits are at or above the j-th of
a few thresholds, which compilers turn into wide instructions. Probabilities are not multiples of
2⁻¹⁶; the few bit patterns left over by rounding down are redrawn from the exact remainder.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from contrapose.metrics.types import FloatArray

Counts = NDArray[np.uint8]

PLAIN_BELOW = 1024
"""Fewer units than this are drawn as plain indices."""

_MARGIN = 6.0
"""λ·n lies this many standard deviations below n: one resample in 10⁹ is drawn again."""

_CELLS = 1 << 16


def draw_counts(rng: np.random.Generator, units: int, resamples: int) -> NDArray[np.integer]:
    """(resamples, units) how often each unit is drawn when as many as there are units are drawn."""
    if units < PLAIN_BELOW:
        return index_counts(rng, units, resamples)
    return poisson_counts(rng, units, resamples)


def index_counts(rng: np.random.Generator, units: int, resamples: int) -> NDArray[np.int64]:
    """Counts by drawing indices."""
    drawn = rng.integers(0, units, size=(resamples, units), dtype=np.int32)
    places = drawn + np.arange(resamples)[:, None] * units
    return np.bincount(places.ravel(), minlength=resamples * units).reshape(resamples, units)


def poisson_counts(rng: np.random.Generator, units: int, resamples: int) -> Counts:
    """Counts by Poisson draws and a remainder of indices."""
    rate = 1.0 - _MARGIN / math.sqrt(units)
    counts = _poisson(rng, rate, (resamples, units))
    missing = units - counts.sum(axis=1, dtype=np.int64)
    for row in np.flatnonzero(missing < 0):
        while missing[row] < 0:
            counts[row] = _poisson(rng, rate, (1, units))[0]
            missing[row] = units - int(counts[row].sum(dtype=np.int64))
    rows = np.repeat(np.arange(resamples) * units, missing)
    np.add.at(counts.reshape(-1), rows + rng.integers(0, units, size=len(rows)), np.uint8(1))
    return counts


def _poisson(rng: np.random.Generator, rate: float, shape: tuple[int, int]) -> Counts:
    """Independent Poisson counts."""
    thresholds, remainder = _table(rate)
    size = shape[0] * shape[1]
    bits = rng.integers(0, 1 << 64, size=-(-size // 4), dtype=np.uint64).view(np.uint16)[:size]
    counts = np.zeros(size, dtype=np.uint8)
    reached = np.empty(size, dtype=np.bool_)
    for threshold in thresholds:
        np.greater_equal(bits, threshold, out=reached)
        counts += reached.view(np.uint8)
    # `reached` now marks the bit patterns above the last threshold: those left over.
    left = np.flatnonzero(reached)
    counts[left] = rng.choice(len(remainder), size=len(left), p=remainder)
    return counts.reshape(shape)


@lru_cache(maxsize=64)
def _table(rate: float) -> tuple[NDArray[np.uint16], FloatArray]:
    """Thresholds on 16 bits, the last of them for the patterns left over, and the remainder.

    The remainder is what Poisson probabilities have beyond whole cells, normalised; counts too rare
    for a cell of their own are all in it.
    """
    most = 32  # P(count > 32) < 10⁻³⁷, below what a double can add to 1
    j = np.arange(most + 1)
    log_factorial = np.array([math.lgamma(i + 1.0) for i in j])
    cells = np.exp(j * math.log(rate) - rate - log_factorial) * _CELLS
    whole = np.floor(cells)
    remainder = (cells - whole) / (cells - whole).sum()
    whole = whole[: int(np.flatnonzero(whole)[-1]) + 1]
    return np.cumsum(whole).astype(np.uint16), remainder
