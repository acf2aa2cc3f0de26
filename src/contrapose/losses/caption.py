"""Captioning loss: cross-entropy of each next token given the image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from contrapose.errors import InputError
from contrapose.losses.batch import LossBatch, at_least_float32
from contrapose.losses.gather import global_mean
from contrapose.losses.registry import register_loss


@register_loss
@dataclass(frozen=True, slots=True)
class Captioning:
    """Captioning loss of BLIP and other captioners: next-token cross-entropy.

    Computes: −1/N · Σ log P(t_k | t_<k, I) over the N tokens of all captions of all processes that
        are not ignored (Li et al. 2022, section 3.2).
    Inputs: `token_logits` (b, l, v) at each position; `tokens` (b, l), with `ignore` in place of
        padding and prompt.
    Requirements: a model with a decoder.
    When to use: to keep likelihood scores while other losses change the encoders.

    Example:
        >>> loss = Captioning()(LossBatch(image, text, token_logits=token_logits, tokens=tokens))
    """

    name: ClassVar[str] = "lm"
    weight: ClassVar[float] = 1.0
    needs: ClassVar[frozenset[str]] = frozenset({"tokens"})
    implied: ClassVar[bool] = True

    ignore: int = -100
    smoothing: float = 0.0
    """Share of the target spread over all tokens; BLIP trains with 0.1."""
    shifted: bool = False
    """Whether position k of the logits is already about token k, not about token k + 1."""

    def __call__(self, batch: LossBatch) -> Tensor:
        """The loss of the whole batch."""
        logits, tokens = batch.require("token_logits"), batch.require("tokens")
        if logits.ndim != 3 or logits.shape[:2] != tokens.shape:
            raise InputError(
                f"logits have shape {tuple(logits.shape)} and tokens {tuple(tokens.shape)}: "
                "they must be (batch, length, vocabulary) and (batch, length)."
            )
        if not self.shifted:
            logits, tokens = logits[:, :-1], tokens[:, 1:]
        dtype = at_least_float32(logits.dtype)
        losses = F.cross_entropy(
            logits.flatten(0, 1).to(dtype),
            tokens.flatten(),
            ignore_index=self.ignore,
            label_smoothing=self.smoothing,
            reduction="none",
        )
        return global_mean(losses, (tokens.flatten() != self.ignore).to(dtype))
