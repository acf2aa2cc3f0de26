"""Dividends and the interaction's share as tensors that carry gradients.

The games are those that `diagnose` plays: for a dual encoder the scores of 2**a masked images with
2**b masked captions are one matrix product. Right and wrong caption (or image) of one comparison
are two games.

- One side: `(…, 2**n)`, the other side with nothing hidden. The pattern R&O of the players (O, R)
  is the mask 0b11.
- Both sides: `(…, 2**a, 2**b)` flattened to `(…, 2**(a + b))` with `flatten(-2)`; the pattern of
  regions s with words t is then the mask `s << b | t`.

The normaliser Z of the metrics is the same for all patterns of a comparison, so it cancels in their
shares and needs no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.metrics.dividends.transform import players_of

TINY = 1e-12
"""Added to squared differences: far below those of cosines, far above what float32 rounds away."""


def dividends(values: Tensor) -> Tensor:
    """Exact dividends over the last axis: the butterfly of `metrics.dividends`, with gradients.

    Args:
        values: (…, 2**n) values of games by coalition, in float32 or float64.

    Raises:
        InputError: they are in half precision, or their number is no power of two.
    """
    if values.dtype not in (torch.float32, torch.float64):
        raise InputError(
            f"dividends are computed in float32 or wider, not {values.dtype}: half precision "
            "drowns them; take the scores out of autocast."
        )
    players = players_of(values.shape[-1] if values.ndim else 0)
    found = values
    for player in range(players):
        without, with_ = found.reshape(*values.shape[:-1], -1, 2, 1 << player).unbind(-2)
        found = torch.stack((without, with_ - without), dim=-2).flatten(-3)
    return found


def sensitivities(right: Tensor, wrong: Tensor, patterns: Sequence[int]) -> Tensor:
    """(…, p) the metrics Q or D of each comparison: |w(right) − w(wrong)|² / Z.

    Z is the mean of w² over both games and the patterns given.

    Args:
        right: (…, 2**n) games of the right captions (or images).
        wrong: (…, 2**n) games of the wrong ones.
        patterns: masks of the reported patterns.
    """
    w = torch.stack([_of(right, patterns), _of(wrong, patterns)])
    z = w.square().mean(dim=(0, -1))
    return (w[0] - w[1]).square() / (z.unsqueeze(-1) + TINY)


def interaction_share(
    right: Tensor, wrong: Tensor, *, interaction: int, parts: Sequence[int]
) -> Tensor:
    """(…,) the interaction's share of the squared dividend differences, from 0 to 1.

    It is Q_R&O / (Q_R&O + Q_O + Q_R) of one comparison; 1 over their number where nothing changes.

    Args:
        right: (…, 2**n) games of the right captions (or images).
        wrong: (…, 2**n) games of the wrong ones.
        interaction: mask of the interaction.
        parts: masks of the patterns it should exceed.
    """
    return log_share(right, wrong, interaction=interaction, parts=parts).exp()


def log_share(right: Tensor, wrong: Tensor, *, interaction: int, parts: Sequence[int]) -> Tensor:
    """(…,) the share's logarithm, which is finite, with finite gradients, where nothing changes.

    Args:
        right: (…, 2**n) games of the right captions (or images).
        wrong: (…, 2**n) games of the wrong ones.
        interaction: mask of the interaction.
        parts: masks of the patterns it should exceed.
    """
    patterns = (interaction, *parts)
    change = _of(right, patterns) - _of(wrong, patterns)
    logs = (change.square() + TINY).log()
    return logs[..., 0] - logs.logsumexp(dim=-1)


def _of(values: Tensor, patterns: Sequence[int]) -> Tensor:
    places = torch.tensor(patterns, device=values.device)
    return dividends(values).index_select(-1, places)
