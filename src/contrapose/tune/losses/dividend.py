"""Dividend loss on a dual encoder: what changed should be seen in the interaction of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.tune.losses.gather import mean_of
from contrapose.tune.losses.shares import log_share


@dataclass(frozen=True, slots=True)
class Dividend:
    """Raises the interaction's share of what tells the right caption from the wrong one.

    When to use: beside `HardNegative`, where a model tells hard captions apart by single words; it
    needs 2**n masked captions a caption, so few groups of words. It does not say which caption is
    right. A model whose interaction does not change at all (a bag of words on a swap) is a saddle,
    from which only that other loss leads.

    Inputs: unit vectors (b, m, d) of images with regions hidden (m = 2**a; 1 for whole images), and
    (b, 2**n, d) of right and wrong captions with words hidden, in the order of masks: bit i of a
    mask says that group i is there. `has` (b,) where some have no such groups.

    Equation: the games are v(s, t) = S(I_s, T_t), w their dividends, X the interaction and P its
    parts: −1/B · Σ_i log [Δw_X² / (Δw_X² + Σ_{p ∈ P} Δw_p²)], Δw = w(right) − w(wrong).

    Example:
        loss = Dividend()(image[:, None], right, wrong)
    """

    interaction: int = 0b11
    """The mask of the interaction; bits of regions stand above those of words."""
    parts: Sequence[int] = (0b01, 0b10)
    """Masks of the patterns that it should exceed."""

    def __call__(
        self, image: Tensor, right: Tensor, wrong: Tensor, *, has: Tensor | None = None
    ) -> Tensor:
        """The mean over the whole batch."""
        losses = -self._logs(image, right, wrong)
        return mean_of(losses, None if has is None else has.to(losses.dtype))

    def shares(self, image: Tensor, right: Tensor, wrong: Tensor) -> Tensor:
        """(b,) the interaction's share of each, from 0 to 1."""
        return self._logs(image, right, wrong).exp()

    def _logs(self, image: Tensor, right: Tensor, wrong: Tensor) -> Tensor:
        games = [_games(image, text) for text in (right, wrong)]
        return log_share(*games, interaction=self.interaction, parts=self.parts)


def _games(image: Tensor, text: Tensor) -> Tensor:
    """(b, m · 2**n) the cosines of every masked image with every masked caption."""
    if image.ndim != 3 or text.ndim != 3 or len(image) != len(text):
        raise InputError(
            f"features of masked images have shape {tuple(image.shape)} and of masked captions "
            f"{tuple(text.shape)}: both must be (batch, masks, width)."
        )
    exact = torch.promote_types(image.dtype, torch.float32)
    with torch.autocast(image.device.type, enabled=False):
        return torch.bmm(image.to(exact), text.to(exact).mT).flatten(1)
