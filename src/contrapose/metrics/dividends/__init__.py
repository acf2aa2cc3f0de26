"""Harsanyi dividends of games, exact, and what follows from them.

A game of n players is its 2**n values along the last axis: bit i of index s says that player i is
present. All functions take any number of games at once, along the leading axes.
"""

from contrapose.metrics.dividends.patterns import pattern_mask, pattern_name
from contrapose.metrics.dividends.shapley import (
    coalitions_of,
    shapley_interactions,
    shapley_values,
)
from contrapose.metrics.dividends.transform import MOST_PLAYERS, dividends, moebius, zeta

__all__ = [
    "MOST_PLAYERS",
    "coalitions_of",
    "dividends",
    "moebius",
    "pattern_mask",
    "pattern_name",
    "shapley_interactions",
    "shapley_values",
    "zeta",
]
