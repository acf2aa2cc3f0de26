"""How much of a score lies in single players, in pairs, in triples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contrapose.diagnose.fourteen import Side
from contrapose.diagnose.played import Played
from contrapose.diagnose.schema import OrderShares
from contrapose.metrics import FloatArray
from contrapose.metrics.dividends import moebius


def order_shares(played: Sequence[Played]) -> tuple[OrderShares, ...]:
    """For each side and number of players the shares of Σ|w| by size of coalition."""
    found: dict[tuple[Side, int], list[FloatArray]] = {}
    for block in played:
        games = block.values.reshape(-1, *block.values.shape[3:])
        if block.text_players:
            found.setdefault(("text", len(block.text_players)), []).append(games[:, -1, :])
        if block.image_players:
            found.setdefault(("image", len(block.image_players)), []).append(games[:, :, -1])
    return tuple(
        OrderShares(side=side, players=players, games=len(known), shares=_shares(known, players))
        for (side, players), parts in sorted(found.items(), key=lambda item: item[0][::-1])
        if len(known := _known(np.concatenate(parts)))
    )


def _known(games: FloatArray) -> FloatArray:
    return games[~np.isnan(games).any(axis=1)]


def _shares(games: FloatArray, players: int) -> tuple[float, ...]:
    sizes = np.array([mask.bit_count() for mask in range(1 << players)])
    magnitudes = np.abs(moebius(games))
    sums = np.stack([magnitudes[:, sizes == k].sum(axis=1) for k in range(1, players + 1)], axis=1)
    total = sums.sum(axis=1, keepdims=True)
    shares = np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)
    return tuple(shares.mean(axis=0).tolist())
