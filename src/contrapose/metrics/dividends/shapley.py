"""Shapley values and Shapley interaction indices: dividends, shared out among their coalitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrapose.errors import InputError
from contrapose.metrics.dividends.transform import as_games, butterfly, players_of
from contrapose.metrics.types import FloatArray, IntArray

Half = NDArray[np.floating[Any]]


def shapley_values(dividends: ArrayLike) -> FloatArray:
    """(…, n) what each player is due: `φ_i = Σ_{S∋i} w(S)/|S|`.

    They sum to `v(N) − v(∅)`.

    Args:
        dividends: (…, 2**n) dividends of games.

    Raises:
        InputError: as in `moebius`.
    """
    return shapley_interactions(dividends, 1)


def shapley_interactions(dividends: ArrayLike, order: int) -> FloatArray:
    """The Shapley interaction index of every coalition of `order` players.

    `I(S) = Σ_{T⊇S} w(T)/(|T| − |S| + 1)` (Grabisch and Roubens, 1999); order 1 is the Shapley
    value.

    Args:
        dividends: (…, 2**n) dividends of games.
        order: number of players in a coalition, 1 … n.

    Returns:
        (…, n over order), in the order of `coalitions_of(n, order)`.

    Raises:
        InputError: as in `moebius`, or no coalition has `order` players.
    """
    games = as_games(dividends, np.float64)
    players = players_of(games.shape[-1])
    wanted = coalitions_of(players, order)
    beyond = _sizes(players) - order
    games *= np.where(beyond >= 0, 1.0 / (np.maximum(beyond, 0) + 1), 0.0)
    return butterfly(games, _gather)[..., wanted]


def coalitions_of(players: int, order: int) -> IntArray:
    """The bit masks of all coalitions of `order` players, ascending.

    Raises:
        InputError: no coalition has so many.
    """
    if not 1 <= order <= players:
        raise InputError(
            f"coalitions of {players} players have 1 to {players} of them, not {order}."
        )
    return np.flatnonzero(_sizes(players) == order)


def _sizes(players: int) -> IntArray:
    """(2**n,) how many players each coalition has."""
    masks = np.arange(1 << players, dtype=np.int64)[:, None]
    return np.asarray((masks >> np.arange(players) & 1).sum(axis=1))


def _gather(without: Half, with_: Half) -> object:
    """Sums over supersets run the other way: those with the player are added to those without."""
    return np.add(without, with_, out=without)
