"""Dividend loss: raise the interaction's share of the difference between two captions.

The games are those that `diagnose` plays: for a dual encoder the scores of 2**a masked images with
2**b masked captions are one matrix product. Right and wrong caption (or image) of one comparison
are two games.

- One side: `(…, 2**n)`, the other side with nothing hidden. The pattern R&O of the players (O, R)
  is the mask 0b11.
- Both sides: `(…, 2**a, 2**b)` flattened to `(…, 2**(a + b))` with `flatten(-2)`; the pattern of
  regions s with words t is then the mask `s << b | t`.

The normalizer Z of the metrics is the same for all patterns of a comparison: it cancels in their
shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.losses.batch import LossBatch, at_least_float32
from contrapose.losses.gather import global_mean
from contrapose.losses.registry import register_loss
from contrapose.metrics.dividends import players_of

EPSILON = 1e-12
"""Added to squared differences: far below those of cosines, far above what float32 rounds away."""


def dividends(values: Tensor) -> Tensor:
    """Harsanyi dividends over the last axis (Möbius transform), with gradients.

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
    w = values
    for player in range(players):
        without, with_ = w.reshape(*values.shape[:-1], -1, 2, 1 << player).unbind(-2)
        w = torch.stack((without, with_ - without), dim=-2).flatten(-3)
    return w


def sensitivities(right: Tensor, wrong: Tensor, patterns: Sequence[int]) -> Tensor:
    """(…, p) metric Q or D of each comparison: |w(right) − w(wrong)|² / Z.

    Z is the mean of w² over both games and the patterns given.

    Args:
        right: (…, 2**n) games of the right captions (or images).
        wrong: (…, 2**n) games of the wrong ones.
        patterns: masks of the reported patterns.
    """
    w = torch.stack([_select_patterns(right, patterns), _select_patterns(wrong, patterns)])
    z = w.square().mean(dim=(0, -1))
    return (w[0] - w[1]).square() / (z.unsqueeze(-1) + EPSILON)


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
    """(…,) logarithm of the share; finite, with finite gradients, where nothing changes.

    Args:
        right: (…, 2**n) games of the right captions (or images).
        wrong: (…, 2**n) games of the wrong ones.
        interaction: mask of the interaction.
        parts: masks of the patterns it should exceed.
    """
    patterns = (interaction, *parts)
    change = _select_patterns(right, patterns) - _select_patterns(wrong, patterns)
    logs = (change.square() + EPSILON).log()
    return logs[..., 0] - logs.logsumexp(dim=-1)


def _select_patterns(values: Tensor, patterns: Sequence[int]) -> Tensor:
    places = torch.tensor(patterns, device=values.device)
    return dividends(values).index_select(-1, places)


@register_loss
@dataclass(frozen=True, slots=True)
class Dividend:
    """Dividend loss: raises the interaction's share of the difference of two captions.

    Computes: −1/B · Σ_i log [Δw_X² / (Δw_X² + Σ_{p ∈ P} Δw_p²)], Δw = w(right) − w(wrong), with w
        the Harsanyi dividends of the games v(s, t) = S(I_s, T_t), X the interaction, P its parts.
    Inputs: `image` (b, d), or (b, 2**a, d) with regions hidden; `masked` and `masked_negative`
        (b, 2**n, d), captions with words hidden: bit i of a mask says that group i is there;
        `has_masked` where some rows have no such groups.
    Requirements: a model that hides words; 2**n encoded captions for each caption.
    When to use: beside `HardNegative`, where a model tells hard captions apart by single words. It
        does not say which caption is right, and an interaction that does not change at all (a bag
        of words on a swap) has no gradient. Short trials showed no gain (docs/repair.md).

    Example:
        >>> batch = LossBatch(image, text, masked=masked, masked_negative=masked_negative)
        >>> loss = Dividend()(batch)
    """

    name: ClassVar[str] = "dividend"
    weight: ClassVar[float] = 0.1
    needs: ClassVar[frozenset[str]] = frozenset({"negative", "masked"})

    interaction: int = 0b11
    """The mask of the interaction; bits of regions stand above those of words."""
    parts: Sequence[int] = (0b01, 0b10)
    """Masks of the patterns that it should exceed."""

    def __call__(self, batch: LossBatch) -> Tensor:
        """Mean loss over the whole batch."""
        games = batch.require("masked"), batch.require("masked_negative")
        losses = -self._log_shares(batch.image, *games)
        has = batch.has_masked
        return global_mean(losses, None if has is None else has.to(losses.dtype))

    def shares(self, image: Tensor, right: Tensor, wrong: Tensor) -> Tensor:
        """(b,) the interaction's share of each pair, from 0 to 1."""
        return self._log_shares(image, right, wrong).exp()

    def _log_shares(self, image: Tensor, right: Tensor, wrong: Tensor) -> Tensor:
        games = [_game_values(image, text) for text in (right, wrong)]
        return log_share(*games, interaction=self.interaction, parts=self.parts)


def _game_values(image: Tensor, text: Tensor) -> Tensor:
    """(b, m · 2**n) cosines of every masked image with every masked caption."""
    image = image[:, None] if image.ndim == 2 else image
    if image.ndim != 3 or text.ndim != 3 or len(image) != len(text):
        raise InputError(
            f"features of masked images have shape {tuple(image.shape)} and of masked captions "
            f"{tuple(text.shape)}: both must be (batch, masks, width)."
        )
    dtype = at_least_float32(image.dtype)
    with torch.autocast(image.device.type, enabled=False):
        return torch.bmm(image.to(dtype), text.to(dtype).mT).flatten(1)
