"""Exact inference: no gradients, no TF32 in convolutions, unit vectors in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

P = ParamSpec("P")
R = TypeVar("R")


def exact_inference(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator for inference without gradients and without TF32 in convolutions.

    TF32 keeps ten bits of a number: the same image could then differ between batches by more than
    the conformance suite allows.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.inference_mode():
            if not torch.cuda.is_available():
                return function(*args, **kwargs)
            backend = torch.backends.cudnn
            allowed = backend.allow_tf32
            backend.allow_tf32 = False
            try:
                return function(*args, **kwargs)
            finally:
                backend.allow_tf32 = allowed

    return run


def to_device(values: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor to a device; the program does not wait for a GPU that still computes."""
    if torch.device(device).type != "cuda":
        return values.to(device)
    pinned = values if values.is_cuda or values.is_pinned() else values.pin_memory()
    return pinned.to(device, non_blocking=True)


def normalize_rows(vectors: Tensor) -> Tensor:
    """L2-normalize vectors along the last dimension, in float32."""
    return F.normalize(vectors.float(), dim=-1)
