"""Harsanyi dividends, Shapley values and interaction indices of games, exact.

A game of n players is its 2**n values along the last axis: bit i of index s says that player i is
present. All functions take any number of games at once, along the leading axes.

The dividend of a coalition is `w(S) = Σ_{S'⊆S} (−1)^{|S|−|S'|} v(S')`: the worth of S beyond that
of its parts. Taken literally that is 3**n terms a game; the butterfly does one player after the
other, `w(S ∪ {i}) −= w(S)`, in place.

NaN stands for a coalition that was not evaluated: the dividends of its supersets are NaN, the
others are not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from contrapose.errors import InputError
from contrapose.metrics.types import FloatArray, IntArray

__all__ = [
    "MOST_PLAYERS",
    "coalitions_of",
    "compute_sensitivities",
    "dividends",
    "moebius",
    "pattern_mask",
    "pattern_name",
    "shapley_interactions",
    "shapley_values",
    "zeta",
]


EMPTY = "∅"

LAST = "O"
"""Object words are named last: the relation (or attribute) *and* its objects."""


def pattern_name(players: Sequence[str], coalition: int) -> str:
    """Name of a coalition: its players in their order, object words last.

    `pattern_name(("O", "R"), 0b11)` is `"R&O"`; the empty coalition is `"∅"`.
    """
    present = [name for bit, name in enumerate(players) if coalition >> bit & 1]
    return "&".join(sorted(present, key=lambda name: name == LAST)) or EMPTY


def pattern_mask(players: Sequence[str], pattern: str) -> int | None:
    """Bit mask of a coalition's name; None if one of its players is missing here."""
    names = () if pattern == EMPTY else pattern.split("&")
    if not set(names) <= set(players):
        return None
    return sum(1 << list(players).index(name) for name in names)


MOST_PLAYERS = 16
"""More players than this have too many coalitions to evaluate them all."""

BLOCK = 1 << 15
"""Values worked on at a time: 256 KiB stay in a processor's second cache."""

NARROW = 16
"""Runs shorter than this are gathered into one long operation for each position in the run."""

Half = NDArray[np.floating[Any]]
Step = Callable[[Half, Half], object]
"""Changes the coalitions without and those with one player, in place."""


def moebius(values: ArrayLike, *, dtype: DTypeLike = np.float64) -> FloatArray:
    """Dividends of games, exact: the Möbius transform over the last axis.

    Args:
        values: (…, 2**n) values of games by coalition, float32 or wider; whole numbers are fine.
        dtype: what to compute in, float32 or wider. A dividend is a sum of 2**n values of either
            sign, so half precision drowns it.

    Raises:
        InputError: the values are in half precision or infinite, their number is no power of two,
            or the players are more than `MOST_PLAYERS`.
    """
    return butterfly(check_games(values, dtype), _subtract)


def zeta(dividends: ArrayLike, *, dtype: DTypeLike = np.float64) -> FloatArray:
    """The game that has these dividends, `v(S) = Σ_{S'⊆S} w(S')`: the inverse of `moebius`."""
    return butterfly(check_games(dividends, dtype), _add)


def dividends(values: ArrayLike, *, dtype: DTypeLike = np.float64) -> FloatArray:
    """Dividends of games between two sets of players, over both at once.

    `w(S, T) = Σ_{S'⊆S, T'⊆T} (−1)^{|S|−|S'|+|T|−|T'|} v(S', T')`.

    Args:
        values: (…, 2**a, 2**b) values by coalition of either set; a + b players in all.
        dtype: as in `moebius`.

    Raises:
        InputError: as in `moebius`, or there are fewer than two axes.
    """
    array = np.asarray(values)
    if array.ndim < 2:
        raise InputError(
            f"a game of two sets of players has two axes, not the shape {array.shape}."
        )
    for length in array.shape[-2:]:
        players_of(length)
    # Laid end to end, the first set's players are the high bits of one set.
    flat = array.reshape(*array.shape[:-2], array.shape[-2] * array.shape[-1])
    return moebius(flat, dtype=dtype).reshape(array.shape)


def players_of(coalitions: int) -> int:
    """Number of players that have this many coalitions.

    Raises:
        InputError: no number of players has, or it is more than `MOST_PLAYERS`.
    """
    players = coalitions.bit_length() - 1
    if coalitions < 1 or coalitions != 1 << players:
        raise InputError(f"a game has 2**n values, one a coalition; {coalitions} is no power of 2.")
    if players > MOST_PLAYERS:
        raise InputError(
            f"{players} players have {coalitions} coalitions; dividends are exact up to "
            f"{MOST_PLAYERS} players, so put some of them together into groups."
        )
    return players


def check_games(values: ArrayLike, dtype: DTypeLike) -> NDArray[np.floating[Any]]:
    """Copy the values into a fresh array of `dtype`, and check them.

    Raises:
        InputError: as in `moebius`.
    """
    given, kind = np.asarray(values), np.dtype(dtype)
    for what, used in (("a game's values are", given.dtype), ("dividends are computed", kind)):
        integer = used is given.dtype and used.kind in "iub"
        if not integer and (used.kind != "f" or used.itemsize < 4):
            raise InputError(f"{what} in float32 or wider, not {used}: half precision drowns them.")
    if not given.ndim:
        raise InputError("a game has 2**n values, one a coalition; one number is none.")
    players_of(given.shape[-1])
    games = np.array(given, dtype=kind, order="C", copy=True)
    if np.isinf(games).any():
        raise InputError(f"{int(np.isinf(games).sum())} of {games.size} values are infinite.")
    return games


def butterfly(games: NDArray[np.floating[Any]], step: Step) -> FloatArray:
    """Apply `step` for each player in turn, in place, on contiguous games (…, 2**n)."""
    coalitions = games.shape[-1]
    flat = games.reshape(-1, coalitions)
    rows = max(1, BLOCK // coalitions)
    for start in range(0, len(flat), rows):
        block = flat[start : start + rows]
        run = 1
        while run < coalitions:
            pairs = block.reshape(-1, 2, run)
            if run < NARROW:
                for offset in range(run):
                    step(pairs[:, 0, offset], pairs[:, 1, offset])
            else:
                step(pairs[:, 0], pairs[:, 1])
            run *= 2
    return games


def _subtract(without: Half, with_: Half) -> object:
    return np.subtract(with_, without, out=with_)


def _add(without: Half, with_: Half) -> object:
    return np.add(with_, without, out=with_)


def shapley_values(dividends: ArrayLike) -> FloatArray:
    """Shapley value (…, n) of each player: `φ_i = Σ_{S∋i} w(S)/|S|`.

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
    games = check_games(dividends, np.float64)
    players = players_of(games.shape[-1])
    wanted = coalitions_of(players, order)
    beyond = _coalition_sizes(players) - order
    games *= np.where(beyond >= 0, 1.0 / (np.maximum(beyond, 0) + 1), 0.0)
    return butterfly(games, _add_supersets)[..., wanted]


def coalitions_of(players: int, order: int) -> IntArray:
    """Bit masks of all coalitions of `order` players, ascending.

    Raises:
        InputError: no coalition has so many.
    """
    if not 1 <= order <= players:
        raise InputError(
            f"coalitions of {players} players have 1 to {players} of them, not {order}."
        )
    return np.flatnonzero(_coalition_sizes(players) == order)


def _coalition_sizes(players: int) -> IntArray:
    """(2**n,) number of players of each coalition."""
    masks = np.arange(1 << players, dtype=np.int64)[:, None]
    return np.asarray((masks >> np.arange(players) & 1).sum(axis=1))


def _add_supersets(without: Half, with_: Half) -> object:
    """Sum over supersets: add the coalitions with the player to those without."""
    return np.add(without, with_, out=without)


NO_EFFECT = 1e-12
"""Dividends below this share of the largest value are rounding."""


def compute_sensitivities(w: FloatArray, largest: FloatArray) -> FloatArray:
    """(c, p) sensitivities from the dividends (c, 2, p) of right and wrong.

    Args:
        w: dividends; NaN for patterns whose players both lack.
        largest: (c,) largest magnitude among the games' values; dividends far below it are
            rounding.
    """
    present = ~np.isnan(w).any(axis=1)
    squares = np.where(present, (np.nan_to_num(w) ** 2).sum(axis=1), 0.0)
    counted = 2 * present.sum(axis=1)
    z = np.divide(squares.sum(axis=1), counted, out=np.zeros(len(w)), where=counted > 0)
    effect = z > (NO_EFFECT * largest) ** 2
    change = (w[:, 0] - w[:, 1]) ** 2
    known = present & effect[:, None]
    result = np.full(change.shape, np.nan)
    np.divide(change, z[:, None], out=result, where=known)
    return result
