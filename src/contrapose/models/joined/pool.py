"""One vector of an encoder's many."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from contrapose.errors import InputError


def pooled(output: Any, how: str, mask: Tensor | None = None) -> Tensor:
    """A vector (n, d) in float32 from an encoder's output.

    Args:
        output: of a model of the transformers library.
        how: see `Pool`.
        mask: (n, l) which places count; all when left out.

    Raises:
        InputError: the encoder has no pooler.
    """
    if how == "pooler":
        found = getattr(output, "pooler_output", None)
        if found is None:
            raise InputError("the encoder has no pooler: choose another pool in joined.json.")
        return torch.as_tensor(found).float().flatten(1)
    states: Tensor = output.last_hidden_state.float()
    if states.ndim == 4:  # a map of a convolutional network
        states = states.flatten(2).transpose(1, 2)
    if mask is None:
        mask = torch.ones(states.shape[:2], device=states.device)
    if how == "first":
        return states[:, 0]
    weights = mask.to(states.dtype).unsqueeze(2)
    if how == "mean":
        return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
    if how == "max":
        return states.masked_fill(weights == 0, -torch.inf).amax(dim=1)
    places = torch.arange(mask.shape[1], device=mask.device)
    last = torch.where(mask.bool(), places, -1).amax(dim=1)
    return states[torch.arange(len(states), device=states.device), last]
