"""Hard negatives of a matching loss, and the loss of telling them from the right pairs."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name


def drawn(logits: Tensor) -> Tensor:
    """One column of each row, drawn by its softmax: the first to arrive of exponential clocks.

    `torch.multinomial` does the same but waits for the device, which a captured step cannot.
    """
    return (logits - torch.empty_like(logits).exponential_().log()).argmax(dim=1)


def told_apart(answers: Tensor, rights: int, weight: float = 2.0) -> Tensor:
    """The loss of each answer: the first `rights` are right pairs, which weigh more."""
    right = torch.zeros_like(answers)
    right[:rights] = 1
    weights = torch.where(right > 0, weight, 1.0)
    return F.binary_cross_entropy_with_logits(answers, right, weight=weights, reduction="none")
