"""Captioning loss: cross-entropy of each next token given the image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.errors import InputError
from contrapose.losses.gather import global_mean


@dataclass(frozen=True, slots=True)
class Captioning:
    """Captioning loss of BLIP and other captioners: next-token cross-entropy.

    When to use: models with a decoder; keeps likelihood scores alive while other losses change the
    encoders.

    Inputs: logits (b, n, v) at each position and tokens (b, n), with `ignore` in place of padding
    and prompt.

    Equation: −1/N · Σ log P(t_k | t_<k, I) over the N tokens of all captions of all processes that
    are not ignored (Li et al. 2022, section 3.2).

    Example:
        loss = Captioning(ignore=tokenizer.pad_token_id)(decoder(tokens, image), tokens)
    """

    ignore: int = -100
    smoothing: float = 0.0
    """Share of the aim spread over all tokens; BLIP trains with 0.1."""
    shifted: bool = False
    """Whether position k of the logits is already about token k, not about token k + 1."""

    def __call__(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """The loss of the whole batch."""
        if logits.ndim != 3 or logits.shape[:2] != tokens.shape:
            raise InputError(
                f"logits have shape {tuple(logits.shape)} and tokens {tuple(tokens.shape)}: "
                "they must be (batch, length, vocabulary) and (batch, length)."
            )
        if not self.shifted:
            logits, tokens = logits[:, :-1], tokens[:, 1:]
        exact = torch.promote_types(logits.dtype, torch.float32)
        losses = F.cross_entropy(
            logits.flatten(0, 1).to(exact),
            tokens.flatten(),
            ignore_index=self.ignore,
            label_smoothing=self.smoothing,
            reduction="none",
        )
        return global_mean(losses, (tokens.flatten() != self.ignore).to(exact))
