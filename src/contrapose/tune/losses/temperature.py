"""The temperature of contrastive losses: learnt with the model, or fixed."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from contrapose.errors import InputError


class Temperature(nn.Module):
    """One over τ, kept as its logarithm; `temperature()` gives the scale that losses take.

    When to use: learnable where the towers are trained, as in CLIP; fixed for adaptation heads,
    where τ decides what they are good for (SIMAT: 0.1 for deltas, 0.01 for retrieval).

    Example:
        temperature = Temperature(0.07)
        loss = InfoNCE()(image, text, scale=temperature())
    """

    def __init__(self, tau: float = 0.07, *, learnable: bool = True, most: float = 100.0):
        super().__init__()
        if not 0 < tau < math.inf:
            raise InputError(f"the temperature is {tau}; it must be above zero.")
        self.most = most
        self.log_scale = nn.Parameter(torch.tensor(-math.log(tau)), requires_grad=learnable)

    def forward(self) -> Tensor:
        """The scale, at most `most`, beyond which CLIP found training unstable."""
        return self.log_scale.exp().clamp(max=self.most)
