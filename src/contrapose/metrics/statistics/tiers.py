"""Tiers and groups of models from pairwise tests, which need not be transitive.

A may differ from C although B differs from neither. Tiers give each model one number all the same;
groups say exactly which models cannot be told apart, as the bars of a critical-difference diagram
(Demšar, Statistical comparisons of classifiers over multiple data sets, 2006).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.types import BoolArray, IntArray


def significance_tiers(differ: ArrayLike) -> IntArray:
    """Tiers of models, from 1: those that do not differ from the best one, and so on down.

    The first model leads tier 1, with all that do not differ from it. The best of the rest leads
    tier 2, with all of the rest that do not differ from it. So a leader differs from all leaders
    before it, and a model is in the tier of the best leader that it does not differ from. Where
    tests are not transitive, a model may stand in a better tier than one with a higher value.

    Args:
        differ: (n, n) which models differ significantly, best model first; symmetric.

    Raises:
        InputError: the matrix is not square and symmetric, or a model differs from itself.
    """
    matrix = _check_differences(differ)
    tiers: IntArray = np.zeros(len(matrix), dtype=np.int64)
    for leader in range(len(matrix)):
        if not tiers[leader]:
            tiers[(tiers == 0) & ~matrix[leader]] = tiers.max() + 1
    return tiers


def maximal_groups(differ: ArrayLike) -> Iterator[tuple[int, ...]]:
    """Maximal sets of models of which no two differ; a model that differs from all is one alone.

    These are the maximal cliques of the graph of pairs that do not differ, by Bron and Kerbosch's
    algorithm with pivots (Algorithm 457, 1973). There can be exponentially many of them, so they
    come one by one, in no order.

    Args:
        differ: as in `significance_tiers`.

    Raises:
        InputError: as there.
    """
    matrix = _check_differences(differ)
    alike = [set(np.flatnonzero(~row).tolist()) - {i} for i, row in enumerate(matrix)]
    stack: list[tuple[set[int], set[int], set[int]]] = [(set(), set(range(len(matrix))), set())]
    while stack:
        group, candidates, done = stack.pop()
        if not candidates and not done:
            if group:
                yield tuple(sorted(group))
            continue
        pivot = max(sorted(candidates | done), key=lambda i: len(alike[i] & candidates))
        for i in sorted(candidates - alike[pivot]):
            stack.append((group | {i}, candidates & alike[i], done & alike[i]))
            candidates = candidates - {i}
            done = done | {i}


def _check_differences(differ: ArrayLike) -> BoolArray:
    matrix = np.asarray(differ, dtype=np.bool_)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"differences must be a square matrix, not of shape {matrix.shape}.")
    if (matrix != matrix.T).any() or matrix.diagonal().any():
        raise InputError("differences must be symmetric, and no model may differ from itself.")
    return matrix
