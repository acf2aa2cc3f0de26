"""Exact chance levels: the expected text, image and group score of random scores.

All scores of an example are taken as independent draws from one continuous distribution, so every
ordering of them is equally likely and no ties occur.

Text score. An image with n captions, r of them right, is won when the r right ones are the r
highest: one of C(n, r) equally likely sets. Rows share no scores, so the product over rows is the
chance of the example. The image score is the same on columns.

Group score of m images and m captions that match along the diagonal. Order the m right scores,
d₁ < d₂ < … < d_m (m! ways, equally likely). A wrong score at (i, j) must lie below both dᵢ and dⱼ,
hence below d_min(i,j): below d_i hang 2(m − i) wrong scores. The conditions form a tree, and by the
hook length formula the chance of a tree of n conditions is Π 1/h(v), h(v) the number of scores at
or below v; leaves have h = 1 and d_k has Σ_{i≤k} (2(m − i) + 1). So

    P = m! / Π_{k=1..m} Σ_{i=1..k} (2(m − i) + 1),      1/6 for m = 2.

Group score of any other match matrix: the orderings that satisfy all conditions are counted one by
one, by the set of scores placed so far, where that is feasible (at most 16 scores).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from contrapose.metrics.types import BoolArray, FloatArray

MOST_CELLS = 16
"""The largest m · n whose orderings are counted: 2¹⁶ sets, and 16! still fits in 64 bits."""


def text_chance(match: BoolArray, present: BoolArray | None = None) -> float | None:
    """Mean chance level of the text score over k examples of shape (k, m, n); None for k = 0."""
    if not len(match):
        return None
    right = match if present is None else match & present
    r = right.sum(axis=2)
    n = np.full_like(r, match.shape[2]) if present is None else present.sum(axis=2)
    width = match.shape[2] + 1
    pairs, inverse = np.unique(n * width + r, return_inverse=True)
    levels = np.array([1 / math.comb(int(p) // width, int(p) % width) for p in pairs])
    return float(levels[inverse].reshape(r.shape).prod(axis=1).mean())


def image_chance(match: BoolArray, present: BoolArray | None = None) -> float | None:
    """Mean chance level of the image score over k examples of shape (k, m, n)."""
    turned = None if present is None else present.transpose(0, 2, 1)
    return text_chance(match.transpose(0, 2, 1), turned)


def group_chance(match: BoolArray, present: BoolArray | None = None) -> float | None:
    """Mean chance level of the group score over k examples; None where one is out of reach."""
    if not len(match):
        return None
    patterns, counts = _patterns(match, present)
    levels = [_group_level(pattern.tobytes(), pattern.shape) for pattern in patterns]
    known = [level for level in levels if level is not None]
    if len(known) < len(levels):
        return None
    return float(np.average(known, weights=counts))


def chance_levels(
    score: Literal["text", "image", "group"],
    match: BoolArray,
    present: BoolArray,
    where: BoolArray | None = None,
) -> FloatArray | None:
    """Chance level of each of k examples, 0 where `where` is false; None where one is unknown.

    Examples with one match matrix share their level.
    """
    chance = {"text": text_chance, "image": image_chance, "group": group_chance}[score]
    chosen = np.arange(len(match)) if where is None else np.flatnonzero(where)
    levels = np.zeros(len(match))
    cells = np.where(present, 1 + match, 0).astype(np.uint8).reshape(len(match), -1)
    if chosen.size and (cells[chosen] == cells[chosen[0]]).all():
        kinds = np.zeros(chosen.size, dtype=np.int64)
        firsts = chosen[:1]
    else:
        _, first, kinds = np.unique(cells[chosen], axis=0, return_index=True, return_inverse=True)
        firsts = chosen[first]
    for kind, example in enumerate(firsts):
        level = chance(match[example : example + 1], present[example : example + 1])
        if level is None:
            return None
        levels[chosen[kinds == kind]] = level
    return levels


def diagonal_group_chance(m: int) -> float:
    """Chance level of the group score of m images and m captions, the i-th with the i-th."""
    hooks = np.cumsum([2 * (m - i) + 1 for i in range(1, m + 1)])
    return math.factorial(m) / math.prod(int(hook) for hook in hooks)


ABSENT, WRONG, RIGHT = 0, 1, 2
"""What a cell of a pattern can be."""

_Pattern = NDArray[np.uint8]


def _patterns(
    match: BoolArray, present: BoolArray | None
) -> tuple[list[_Pattern], NDArray[np.integer[Any]]]:
    """Distinct match matrices as (m, n) patterns, and the number of examples with each."""
    k, m, n = match.shape
    cells = np.where(match, RIGHT, WRONG).astype(np.uint8)
    if present is not None:
        cells[~present] = ABSENT
    if (cells == cells[:1]).all():
        return [cells[0]], np.array([k])
    rows = np.ascontiguousarray(cells.reshape(k, m * n)).view(f"V{m * n}").ravel()
    distinct, counts = np.unique(rows, return_counts=True)
    return [np.frombuffer(row.tobytes(), np.uint8).reshape(m, n) for row in distinct], counts


@lru_cache(maxsize=4096)
def _group_level(pattern: bytes, shape: tuple[int, int]) -> float | None:
    """Chance level of the group score of one pattern."""
    cells = np.frombuffer(pattern, np.uint8).reshape(shape)
    cells = cells[(cells != ABSENT).any(axis=1)][:, (cells != ABSENT).any(axis=0)]
    right = cells == RIGHT
    square = cells.shape[0] == cells.shape[1] and (cells != ABSENT).all()
    if square and (right.sum(axis=0) == 1).all() and (right.sum(axis=1) == 1).all():
        return diagonal_group_chance(cells.shape[0])
    places = np.argwhere(cells != ABSENT)
    if len(places) > MOST_CELLS:
        return None
    is_right = right[tuple(places.T)]
    shares_line = (places[:, None, :] == places[None, :, :]).any(axis=2)
    above = is_right[:, None] & ~is_right[None, :] & shares_line
    return count_orderings(above) / math.factorial(len(places))


def count_orderings(above: BoolArray) -> int:
    """Number of orderings of s things in which i stands above j wherever `above[i, j]`.

    An ordering is built from the lowest thing up. `ways[S]` counts the orders in which the things
    of the set S (a bit mask) can have been placed; i may follow when all it must be above are in S.
    """
    size = len(above)
    needs = (above * (1 << np.arange(size))).sum(axis=1)
    sets = np.arange(1 << size)
    sizes = np.zeros(1 << size, dtype=np.int64)
    for i in range(size):
        sizes += (sets >> i) & 1
    ways = np.zeros(1 << size, dtype=np.int64)
    ways[0] = 1
    for placed in range(size):
        layer = sets[(sizes == placed) & (ways > 0)]
        for i in range(size):
            ready = layer[(layer >> i & 1 == 0) & (layer & needs[i] == needs[i])]
            ways[ready | 1 << i] += ways[ready]
    return int(ways[-1])
