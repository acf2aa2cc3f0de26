"""Log-probabilities by the library's own forward pass, whole sequences in batches.

For architectures whose captions cannot be packed behind a shared prefix: slower, and never wrong in
silence, since nothing of the network is done anew here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from contrapose.models.hf.vlm.packed import Continuation

ROWS = 8
"""Sequences at once."""


def score_whole(
    network: Any, prefix: Mapping[str, Tensor], texts: Sequence[Continuation], fill: int
) -> list[Tensor]:
    """Log-probabilities of each text's counted tokens after one prefix, on the CPU.

    Args:
        network: the library's model.
        prefix: what its forward pass takes for the prefix alone: (1, p) tokens, and the image.
        texts: what follows it.
        fill: the token that shorter sequences are filled up with.
    """
    found: list[Tensor] = []
    for start in range(0, len(texts), ROWS):
        some = texts[start : start + ROWS]
        inputs = {
            name: _several(name, values, prefix, some, fill) for name, values in prefix.items()
        }
        logits = network(**inputs, use_cache=False).logits
        length = prefix["input_ids"].shape[1]
        for row, text in zip(logits, some, strict=True):
            last = length + len(text.ids) - 1
            states = row[last - text.counted : last].float().log_softmax(dim=-1)
            targets = torch.tensor(text.ids[len(text.ids) - text.counted :], device=row.device)
            found.append(states.gather(1, targets[:, None]).squeeze(1).cpu())
    return found


def _several(
    name: str,
    values: Tensor,
    prefix: Mapping[str, Tensor],
    texts: Sequence[Continuation],
    fill: int,
) -> Tensor:
    """One input for several sequences that share a prefix."""
    repeated = torch.cat([values] * len(texts))
    if not per_token(name, values, prefix["input_ids"]):
        return repeated
    width = max(len(text.ids) for text in texts)
    if values.ndim > 2:
        return lengthened(repeated, width)
    rows = values.new_zeros(len(texts), width)
    for i, text in enumerate(texts):
        if name == "input_ids":
            rows[i] = fill
            rows[i, : len(text.ids)] = torch.tensor(text.ids)
        elif name == "attention_mask":
            rows[i, : len(text.ids)] = 1
    return torch.cat([repeated, rows], dim=1)


def per_token(name: str, values: Tensor, ids: Tensor) -> bool:
    """Whether an input says something of each token."""
    if name == "cross_attention_mask":  # which images each token may look at
        return True
    return values.shape == ids.shape and not values.is_floating_point()


def lengthened(values: Tensor, count: int) -> Tensor:
    """What is said of each token, for some more that are like the last."""
    last = values[:, -1:].expand(-1, count, *values.shape[2:])
    return torch.cat([values, last], dim=1)


def continued(
    prepared: Mapping[str, Tensor],
    head: Callable[[Sequence[int]], tuple[int, ...]],
    tail: tuple[int, ...],
) -> dict[str, Tensor]:
    """Inputs for an image with other words after it than those it was prepared with.

    Args:
        prepared: inputs of one image with some words.
        head: finds which of its tokens are kept.
        tail: the words after them.
    """
    ids = prepared["input_ids"]
    kept = head(ids[0].tolist())
    found = {}
    for name, values in prepared.items():
        if name == "input_ids":
            found[name] = torch.tensor([[*kept, *tail]])
        elif per_token(name, values, ids) and values.ndim > 2:
            found[name] = lengthened(values, len(tail))[:, : len(kept) + len(tail)]
        elif per_token(name, values, ids):
            rest = values.new_full((1, len(tail)), int(name == "attention_mask"))
            found[name] = torch.cat([values[:, : len(kept)], rest], dim=1)
        else:
            found[name] = values
    return found
