"""VALSE: one image with a caption and a foil, compared with each other and with a threshold.

Scores are (k, 2), caption then foil. The released script works on match logits, asks `caption > ½`
and `foil ≤ ½` of the match probability, and drops the items whose foil lies exactly on ½ from all
of its numbers: `kept_officially` says which it keeps. (Parcalabescu et al., VALSE, 2022.)
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from contrapose.errors import InputError
from contrapose.metrics.outcome import Outcome, decided
from contrapose.metrics.statistics.statistic import Statistic, minimum_of_means
from contrapose.metrics.types import BoolArray, FloatArray, of_shape, wide

Protocol = Literal["strict", "official"]


def pairwise(scores: ArrayLike) -> Outcome:
    """`s(caption) > s(foil)`, VALSE's acc_r. Chance ½."""
    caption, foil = _columns(scores)
    return decided(caption > foil, caption == foil, 1 / 2)


def p_c(scores: ArrayLike, threshold: float = 0.5) -> Outcome:
    """`s(caption) > threshold`: the caption is recognised. Chance ½ is that of a coin."""
    caption, _ = _columns(scores)
    return decided(caption > threshold, caption == threshold, 1 / 2)


def p_f(scores: ArrayLike, threshold: float = 0.5, *, protocol: Protocol = "strict") -> Outcome:
    """`s(foil) < threshold`: the foil is recognised. Chance ½ is that of a coin.

    Args:
        scores: (k, 2) caption, foil.
        threshold: what parts fitting from not fitting.
        protocol: "official" asks `s(foil) ≤ threshold`.
    """
    if protocol not in ("strict", "official"):
        raise InputError(f"protocol must be 'strict' or 'official', not {protocol!r}.")
    _, foil = _columns(scores)
    found = foil <= threshold if protocol == "official" else foil < threshold
    return decided(found, foil == threshold, 1 / 2)


def acc(scores: ArrayLike, threshold: float = 0.5, *, protocol: Protocol = "strict") -> Outcome:
    """The mean of p_c and p_f: 0, ½ or 1 an example. Chance ½."""
    caption, foil = p_c(scores, threshold), p_f(scores, threshold, protocol=protocol)
    return Outcome((caption.values + foil.values) / 2, caption.ties | foil.ties, 1 / 2)


def min_precision(
    scores: ArrayLike, threshold: float = 0.5, *, protocol: Protocol = "strict"
) -> Statistic:
    """min(p_c, p_f), which no constant answer can raise: a number of the set, not of an example."""
    return minimum_of_means(
        p_c(scores, threshold).values, p_f(scores, threshold, protocol=protocol).values
    )


def kept_officially(scores: ArrayLike, threshold: float = 0.5) -> BoolArray:
    """(k,) the examples that the released script counts: those whose foil is not on ½ exactly."""
    _, foil = _columns(scores)
    return np.asarray(foil != threshold)


def _columns(scores: ArrayLike) -> tuple[FloatArray, FloatArray]:
    pairs = of_shape(wide(scores), (None, 2), "scores of captions and foils")
    return pairs[:, 0], pairs[:, 1]
