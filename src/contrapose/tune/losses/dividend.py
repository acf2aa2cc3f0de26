"""Dividend losses on a dual encoder: what changed should be seen in the interaction of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from contrapose.errors import InputError
from contrapose.tune.losses.gather import mean_of


class GameLoss(Protocol):
    """A loss on games, such as `contrapose.diagnose.losses.dividend_loss`."""

    def __call__(
        self, right: Tensor, wrong: Tensor, *, interaction: int, parts: Sequence[int]
    ) -> Tensor:
        """Of games (…, 2**n) of the right and the wrong caption (or image)."""


@dataclass(frozen=True, slots=True)
class Dividend:
    """Plays the games of features with parts hidden, and gives them to a loss on dividends.

    When to use: beside `HardNegative`, where a model tells hard captions apart by single words; it
    needs 2**n masked captions a caption, so few groups of words.

    Inputs: unit vectors (b, m, d) of images with regions hidden (m = 2**a; 1 for whole images), and
    (b, 2**n, d) of right and wrong captions with words hidden, in the order of masks.

    Equation: the games are v(s, t) = S(I_s, T_t); the loss on them is given, since `tune` and
    `diagnose` do not know each other: −log of the interaction's share of the squared differences of
    dividends, in `contrapose.diagnose.losses.dividend_loss`.

    Example:
        from contrapose.diagnose.losses import dividend_loss
        loss = Dividend(dividend_loss, interaction=0b11, parts=(0b01, 0b10))(image, right, wrong)
    """

    of: GameLoss
    interaction: int
    parts: Sequence[int]

    def __call__(self, image: Tensor, right: Tensor, wrong: Tensor) -> Tensor:
        """The mean over the whole batch."""
        games = [_games(image, text) for text in (right, wrong)]
        losses = self.of(*games, interaction=self.interaction, parts=self.parts)
        if losses.ndim:
            return mean_of(losses)
        weight = losses.new_tensor(float(len(image)))
        return mean_of(losses[None], weight[None])


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
